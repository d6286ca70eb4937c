"""The few pages outside Streamlit: sign-in and account. Plain HTML, no script, light or dark as the system is."""

import html
from typing import Final

from ui.desk.context import Actor
from ui.desk.usecases.accounts import MAX_PASSWORD_CHARACTERS, MIN_PASSWORD_CHARACTERS

_ROLES: Final = {"annotator": "an annotator", "lead": "a lead"}
_STYLE: Final = """
:root { color-scheme: light dark; --ground: #fbfbf8; --card: #fff; --ink: #1c231f; --soft: #5d665f; --line: #d9dcd2;
  --edge: #858e86; --accent: #38684a; --on-accent: #fff; --bad: #ab352d; --good: #2a7148; }
@media (prefers-color-scheme: dark) { :root { --ground: #141917; --card: #1d2421; --ink: #e4e9e4; --soft: #9aa59d;
  --line: #35403a; --edge: #6f7c74; --accent: #7fb592; --on-accent: #11160f; --bad: #ef8d82; --good: #7cc796; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
main { width: min(24rem, 92vw); background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 2rem; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; } p { margin: .25rem 0 1rem; color: var(--soft); }
label { display: block; margin: .9rem 0 .25rem; font-weight: 600; }
input { width: 100%; box-sizing: border-box; padding: .6rem .7rem; font: inherit; color: inherit;
  background: var(--ground); border: 1px solid var(--edge); border-radius: 8px; }
button { margin-top: 1.4rem; width: 100%; padding: .65rem; font: inherit; font-weight: 600; border: 0;
  border-radius: 8px;  background: var(--accent); color: var(--on-accent); cursor: pointer; }
input:focus-visible, button:focus-visible, a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
small { color: var(--soft); } strong { color: var(--ink); } .after { margin: 1.5rem 0 0; }
.bad { color: var(--bad); } .good { color: var(--good); } a { color: var(--accent); }
"""


def sign_in_page(*, error: str = "", name: str = "", next_path: str = "/") -> str:
    return _document(
        "Sign in",
        f"""
        <h1>sagedesk</h1>
        <p>Sign in with your account, or open the one-time link that a lead gave you.</p>
        {_line(error, "bad", role="alert")}
        <form method="post" action="/login">
          <input type="hidden" name="next" value="{html.escape(next_path)}">
          <label for="name">Account</label>
          <input id="name" name="name" value="{html.escape(name)}" autocomplete="username" required maxlength="64"
            {"" if name else "autofocus"}>
          <label for="password">Password</label>
          <input id="password" name="password" type="password" autocomplete="current-password" required maxlength="256"
            {"autofocus" if name else ""}>
          <button type="submit">Sign in</button>
        </form>
        """,
    )


def account_page(actor: Actor, *, has_password: bool = False, error: str = "", notice: str = "") -> str:
    state = "You can change your password here." if has_password else "Set a password to sign in without a link."
    return _document(
        "Your account",
        f"""
        <h1>Your account</h1>
        <p>Signed in as <strong>{html.escape(actor.name)}</strong>, {_ROLES[actor.role]}. {state}</p>
        {_line(error, "bad", role="alert")}{_line(notice, "good", role="status")}
        <form method="post" action="/account">
          <label for="password">New password</label>
          <input id="password" name="password" type="password" autocomplete="new-password" required
            minlength="{MIN_PASSWORD_CHARACTERS}" maxlength="{MAX_PASSWORD_CHARACTERS}" aria-describedby="length">
          <small id="length">At least {MIN_PASSWORD_CHARACTERS} characters</small>
          <label for="again">Repeat the password</label>
          <input id="again" name="again" type="password" autocomplete="new-password" required
            maxlength="{MAX_PASSWORD_CHARACTERS}">
          <button type="submit">Set password</button>
        </form>
        <p class="after"><a href="/">Back to the desk</a> &middot; <a href="/logout">Sign out</a></p>
        """,
    )


def _line(text: str, tone: str, *, role: str) -> str:
    return f'<p class="{tone}" role="{role}">{html.escape(text)}</p>' if text else ""


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)} - sagedesk</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )
