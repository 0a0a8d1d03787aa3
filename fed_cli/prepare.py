"""``fedperc prepare``: public data sets brought into sequence stores, one sub-command per data set."""

import typer

from fed_cli.main import app

prepare_app = typer.Typer(
    no_args_is_help=True, help="Bring a public data set into the form that studies read, once; resumes."
)
app.add_typer(prepare_app, name="prepare")
