from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth_bridge', '0010_application_permissions'),
    ]

    operations = [
        migrations.AlterField(
            model_name='consent',
            name='expires_at',
            field=models.DateTimeField(null=True),
        ),
    ]
