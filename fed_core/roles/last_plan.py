"""The plan whose models served last, kept beside them: what a node serves from while no aggregator is there."""

import json

from fed_core.errors import StoreError
from fed_core.roles.messages import FleetPlan
from fed_core.store.blobs import BlobStore
from fed_core.wire import files

#: Name of the file in the folder of the models.
FILE = "last_plan.json"
#: Blobs that no plan in use names are kept this long [s]: another node of this folder may be about to load them.
SPARE_S = 600.0


def save_plan(store: BlobStore, plan: FleetPlan, newest: FleetPlan | None = None) -> None:
    """Keep a plan whose models are in the store, and delete old models that it does not name.

    The file appears whole or not at all, so a power cut leaves the plan before.

    Args:
        store: where the models are.
        plan: what serves now.
        newest: what may serve next; its models stay, too.
    """
    files.write_text(store.root / FILE, json.dumps(plan.to_json()))
    used = [plan] if newest is None else [plan, newest]
    named = [blob for one in used for blob in (*one.blobs.values(), one.serving) if blob is not None]
    store.collect([blob.digest for blob in named], blob_age_s=SPARE_S)


def load_plan(store: BlobStore) -> FleetPlan | None:
    """Return the plan that was kept; None where there is none.

    Models whose bytes are no longer what they were are deleted, so that they are read anew.

    Raises:
        StoreError: it cannot be used; one line that says why.
    """
    path = store.root / FILE
    try:
        plan = FleetPlan.from_json(json.loads(path.read_text()))
        serving = [] if plan.serving is None else [plan.serving.digest]
        models = [plan.blobs[key].digest for key in plan.models]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as err:
        raise StoreError(f"ignored {path}, it holds no plan ({type(err).__name__}: {err})") from err
    whole = {digest for digest in {*serving, *models} if _whole(store, digest)}
    if not whole.issuperset(serving) or not whole.intersection(models):
        raise StoreError(f"ignored {path}: the models of round {plan.round} are not in {store.root} any more")
    return plan


def _whole(store: BlobStore, digest: str) -> bool:
    if not store.has(digest):
        return False
    if store.verify(digest):
        return True
    store.path(digest).unlink(missing_ok=True)
    return False
