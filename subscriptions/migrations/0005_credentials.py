from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("subscriptions", "0004_customers")]

    operations = [
        migrations.AlterModelOptions(
            name="subscription",
            options={
                "permissions": [
                    ("reveal_secret", "Can see and rotate a subscription's signing secret"),
                    ("change_credentials", "Can set and remove a subscription's credentials at its endpoint"),
                    ("verify_subscription", "Can have a subscription's endpoint verified"),
                ],
                "verbose_name": "subscription",
                "verbose_name_plural": "subscriptions",
            },
        ),
        migrations.AddField(
            model_name="subscription",
            name="credentials",
            field=models.TextField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="subscription",
            name="certificate_expires_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name="subscription",
            index=models.Index(fields=["certificate_expires_at"], name="idx_sub_certificate_expiry"),
        ),
    ]
