"""What keeps a card from the Hub, in words: nothing is lost by it, and the same command can be given again."""

import re
from typing import Any

from evalcard.errors import UserError

_TOKEN = re.compile(r"\b(?:hf|api_org|hf_oauth)_[A-Za-z0-9]{4,}")
_SAID = 300
"""Characters of what the Hub said that are passed on."""
_UNREACHABLE = {
    "ConnectError", "ConnectionError", "NetworkError", "TransportError", "ProxyError", "LocalEntryNotFoundError",
}  # fmt: skip
SAFE = "The run and its card are unchanged on this machine."
TOKENS = "https://huggingface.co/settings/tokens"


class PublishFailed(UserError):
    """The Hub was asked and did not take the card; the run is as it was. Exit code 5."""

    exit_code = 5


def without_token(text: str, token: str | None) -> str:
    """``text`` with the user's token, and whatever looks like one, left out."""
    if token:
        text = text.replace(token, "(token)")
    return _TOKEN.sub("(token)", text)


def failure(error: Exception, repo: str, token: str | None, *, doing: str) -> UserError:
    """The error to end with, by what the Hub answered to ``doing`` (such as "reading the repository")."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    said, sent = without_token(_said(error), token), _is_of_commit(error)
    known = _by_answer(error, repo, status, said, sent)
    text = known or f"the Hub answered {status or type(error).__name__}: {said}."
    return PublishFailed(f"{doing} failed: {text} {_state(status, sent)}")


def _is_of_commit(error: Any) -> bool:
    """Whether it was the commit itself, and none of the questions before it, that failed: it may have been made."""
    try:
        # An answer's error knows its request only through the answer.
        request = error.response.request if hasattr(error, "response") else error.request
        return "/commit/" in str(request.url.path)
    except (AttributeError, RuntimeError):  # the latter: an error of the client that belongs to no request
        return False


def _state(status: int | None, sent: bool) -> str:
    if sent and (status is None or status >= 500):
        return f"Whether the commit was made is not known: give the same command again, which makes none twice. {SAFE}"
    return f"Nothing was pushed. {SAFE}"


def _by_answer(error: Exception, repo: str, status: int | None, said: str, sent: bool) -> str | None:
    """The known cases; None for the others."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    page = f"https://huggingface.co/{repo}"
    if "GatedRepoError" in kinds:
        return f"{repo} is gated, and this account may not see it. Accept its terms at {page}, then try again."
    if "DisabledRepoError" in kinds:
        return f"{repo} is disabled by the Hub. See {page}."
    if "RevisionNotFoundError" in kinds:
        return f"{repo} has no such branch. Give one that exists with --revision, or leave that out for main."
    # What a token may not see is answered as what is not there; so is, with 401, whoever shows none.
    if "RepositoryNotFoundError" in kinds or (status == 401 and "invalid" not in said.lower()):
        return (
            f"there is no model repository {repo}, or this token may not see it. Give the id of one that exists, make "
            f"it with --create, or take a token that may see it ({TOKENS})."
        )
    if sent and status in (400, 409, 412):
        return (
            f"the Hub refused the commit ({status}: {said}), most likely as {repo} changed meanwhile. Give the same "
            "command again: it reads the repository anew and shows what would change."
        )
    return _by_status(repo, status, said) or _by_kind(kinds, said)


def _by_status(repo: str, status: int | None, said: str) -> str | None:
    if status == 401:
        return f"the Hub does not know this token (401). Make one at {TOKENS}, then `hf auth login` or HF_TOKEN."
    if status == 402:
        return f"the Hub asks for a paid plan (402): {said}."
    if status == 403:
        return (
            f"this token may not do that on {repo} (403: {said}). Give --create-pr to propose the card, or take a "
            f"token with the right to write ({TOKENS})."
        )
    if status == 404:
        return f"the Hub has no such page (404: {said}). Check --repo and HF_ENDPOINT."
    if status == 413:
        return f"the Hub finds the upload too large (413): {said}."
    if status == 429:
        return f"the Hub takes no more requests for now (429: {said}). Wait some minutes, then give the command again."
    if status is not None and status >= 500:
        return f"the Hub has a problem of its own ({status}: {said}). Give the same command again later."
    return None


def _by_kind(kinds: set[str], said: str) -> str | None:
    if "OfflineModeIsEnabled" in kinds:
        return "connections are forbidden (HF_HUB_OFFLINE). Unset it, then give the same command again."
    if any("Timeout" in kind for kind in kinds):
        return "the Hub did not answer in time. Give the same command again."
    if kinds & _UNREACHABLE:
        return f"the Hub cannot be reached ({said}). Check the connection and HF_ENDPOINT, then try again."
    if kinds & {"ValueError", "KeyError"} or "JSONDecodeError" in kinds:
        return f"the Hub's answer cannot be read ({said}). Check HF_ENDPOINT, then give the same command again."
    return None


def refused_metadata(error: ValueError, token: str | None) -> UserError:
    """The Hub read the metadata that was to be committed and says what is wrong with it."""
    said = [line.strip("- ") for line in without_token(str(error), token).split("\n")[1:] if line.strip()]
    listed = "; ".join(said) or "it does not say why"
    return PublishFailed(
        f"the Hub refuses the metadata of README.md: {listed}. Nothing was pushed. Correct it (a key that is not "
        "evalcard's on the Hub, one of ours with `evalcard card`), then publish again.",
        faults=said,
        advice="Nothing was pushed. Correct it (what is not evalcard's on the Hub, what is ours with `evalcard card`), "
        "then publish again.",
    )


def _said(error: Any) -> str:
    """What the Hub said, on one line; without URLs' queries, which may be signed."""
    text = str(getattr(error, "server_message", None) or error or type(error).__name__)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return re.sub(r"(https?://[^\s?]+)\?\S+", r"\1", " ".join(lines))[:_SAID].rstrip(" .")
