from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='credentials_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
    ]
