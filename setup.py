"""Adds the top-level folders templates/ and locale/ to the package webhookhub, where Django finds them as an app's."""

from setuptools import find_packages, setup

APPS = ("webhookhub", "events", "subscriptions", "sagas", "jobs", "deadletters", "workflows", "api")

setup(
    packages=[
        *find_packages(include=[f"{app}*" for app in APPS], exclude=["webhookhub.client"]),
        "webhookhub.templates",
        "webhookhub.locale",
    ],
    package_dir={"webhookhub.templates": "templates", "webhookhub.locale": "locale"},
    package_data={
        "": ["static/**/*"],
        "workflows": ["samples/*.toml"],
        "webhookhub.templates": ["**/*.html", "**/*.svg"],
        "webhookhub.locale": ["**/*.mo"],
    },
)
