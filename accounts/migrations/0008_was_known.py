from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_turns_of_mails"),
    ]

    operations = [
        migrations.AddField(
            model_name="session",
            name="was_known",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
