from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth_bridge', '0007_versions_of_codes'),
    ]

    operations = [
        migrations.AddField(
            model_name='accesstoken',
            name='person_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name='accesstoken',
            name='application_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
    ]
