from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0013_profile_changed_at"),
    ]

    operations = [
        migrations.CreateModel(
            name="StoredPicture",
            fields=[
                ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("content", models.BinaryField()),
            ],
            options={"default_permissions": ()},
        ),
    ]
