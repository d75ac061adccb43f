"""The engine that runs docker-compose.yaml in `make test-long` knows all that the file and the Dockerfile say."""

from pathlib import Path

from containers.client import make_values
from containers.compose_file import load_services
from containers.dockerfile import list_chain, split_stages
from containers.foreign import BUILDERS

ROOT = Path(__file__).parents[3]
CARRIED_OUT = {"ENV", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}


def test_every_service_is_built_or_stood_in_for_and_has_its_secrets() -> None:
    values = make_values(ROOT / ".env.example")
    services = load_services(ROOT / "docker-compose.yaml", values)
    assert {service.image.rpartition(":")[0] for service in services.values() if not service.target} == set(BUILDERS)
    assert services["postgres"].secrets["postgres_password"] == values["POSTGRES_PASSWORD"]
    assert [name for name, service in services.items() if service.has_rights] == [
        "postgres",
        "object-store",
        "object-store-init",
    ]
    for service in services.values():
        settings = set(service.environment.values())
        assert not settings & set(service.secrets.values()), service.name


def test_every_instruction_of_the_built_stages_is_carried_out() -> None:
    stages = dict(split_stages((ROOT / "deploy" / "Dockerfile").read_text()))
    for target in ("spark", "airflow"):
        chain = list_chain(stages, target)
        assert chain == ["java", target]
        assert {word for stage in chain for word, _ in stages[stage][1]} <= CARRIED_OUT
