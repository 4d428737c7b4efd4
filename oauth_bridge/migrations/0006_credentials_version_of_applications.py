# One table a migration, 0006 to 0009: a transaction that locks several deadlocks with live statements.

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('oauth_bridge', '0005_indexes_of_credentials'),
    ]

    operations = [
        migrations.AddField(
            model_name='application',
            name='credentials_version',
            field=models.IntegerField(db_default=0, default=0, editable=False),
        ),
    ]
