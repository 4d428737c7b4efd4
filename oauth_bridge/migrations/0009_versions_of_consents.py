from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth_bridge', '0008_versions_of_tokens'),
    ]

    operations = [
        migrations.AddField(
            model_name='consent',
            name='person_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
    ]
