from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth_bridge', '0006_credentials_version_of_applications'),
    ]

    operations = [
        migrations.AddField(
            model_name='authorizationcode',
            name='person_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name='authorizationcode',
            name='application_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
    ]
