from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_credentials_version'),
    ]

    operations = [
        migrations.AddField(
            model_name='session',
            name='browser',
            field=models.CharField(blank=True, db_default='', default='', editable=False, max_length=60),
        ),
        migrations.AddField(
            model_name='session',
            name='last_used_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='user',
            name='password_changed_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
