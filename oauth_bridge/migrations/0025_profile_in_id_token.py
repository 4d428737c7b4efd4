from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth_bridge', '0024_write_proof'),
    ]

    operations = [
        migrations.AddField(
            model_name='application',
            name='profile_in_id_token',
            field=models.BooleanField(db_default=False, default=False, verbose_name='name and e-mail address in the ID token'),
        ),
    ]
