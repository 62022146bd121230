"""The package list: two top-level folders are installed under another import name."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(
            include=["agentr1_envs", "agentr1_envs.*", "agentr1_train", "agentr1_train.*"]
        ),
        "agentr1_wrappers",
        "agentr1_verifiers",
        "agentr1_recipes",
        *(f"agentr1_recipes.{name}" for name in find_packages("recipes")),
    ],
    package_dir={
        "agentr1_wrappers": "wrappers",
        "agentr1_recipes": "recipes",
        "agentr1_verifiers": "agentr1_envs/bridges/agentr1_verifiers",
    },
    package_data={
        "": ["py.typed", "*.yaml", "*.yml", "*.sh", "*.md", "*.json", "*.jsonl", "*.html"]
    },
)
