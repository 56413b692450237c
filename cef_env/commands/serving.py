"""`cef serve`: an environment for trainers that reach it over the network."""

from typing import Annotated

import typer

from cef_env.commands.console import EnvOption, errors, parse_options
from cef_env.errors import UserError

serve_app = typer.Typer(no_args_is_help=True, help="Serve an environment to other trainers.")


@serve_app.command("openenv")
def serve_openenv(
    env: Annotated[str, typer.Option(help="For example cef/Agentic-v0.")] = "cef/ToolUse-v0",
    problems: Annotated[str, typer.Option(help="Problem source.")] = "builtin",
    coverage: Annotated[str, typer.Option(help="k, or inf for all tests.")] = "inf",
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    sessions: Annotated[int, typer.Option(min=1, help="Episodes at once; one more is refused.")] = 64,
    env_option: EnvOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Serves an environment as OpenEnv does, until interrupted. It asks for no password."""
    try:
        import uvicorn

        from cef_env.training.doors import openenv
    except ImportError as error:
        raise UserError(f'{error}; pip install "cef-env[openenv]"') from error
    from cef_env.problems import load

    server = openenv.app(env, load(problems), coverage, sessions, parse_options(env_option))
    errors.print(f"{env} on {problems}: {sessions} sessions", markup=False, highlight=False)
    uvicorn.run(server, host=host, port=port)
