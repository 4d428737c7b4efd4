from django.db import migrations

DROP = "DROP INDEX IF EXISTS codes_of_a_test; DROP INDEX IF EXISTS tokens_of_a_test"


class Migration(migrations.Migration):
    """Drop an index of each table in one transaction, which locks both tables."""

    dependencies = [("oauth_bridge", "0001_initial")]
    operations = [migrations.RunSQL(DROP, migrations.RunSQL.noop)]
