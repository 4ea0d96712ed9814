"""Takes pictures of pages in a browser."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tools.screenshots.scene import Stage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WAIT_MS = 20_000


@dataclass(frozen=True)
class Picture:
    name: str
    address: str
    width: int = 1280
    height: int = 900
    dark: bool = False
    language: str = "en-US"
    # Of whom: a user who is logged in, who has entered the password, or nobody.
    visitor: str = "user"


def pictures(stage: Stage) -> list[Picture]:
    delivery = f"/admin/sagas/saga/{stage.delivery}/change/"
    return [
        Picture("overview", "/admin/"),
        Picture("overview-dark", "/admin/", dark=True),
        Picture("overview-phone", "/admin/", width=390, height=844),
        Picture("overview-zh", "/admin/", language="zh-TW"),
        Picture("delivery", delivery, height=1300),
        Picture("delivery-phone", delivery, width=390, height=844),
        Picture("dead-letters", "/admin/deadletters/deadletter/"),
        Picture("log-in", "/admin/login/", width=960, height=620, visitor="nobody"),
        Picture("log-in-second-factor", "/admin/verify/", width=960, height=480, visitor="pending"),
        Picture("second-factor", "/admin/second-factor/app/", height=760),
        Picture("subscription", f"/admin/subscriptions/subscription/{stage.subscription}/change/", height=1100),
    ]


def take(stage: Stage, folder: Path) -> None:
    if CHROMIUM is None:
        raise SystemExit("Chromium is not installed: apt-get install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for picture in pictures(stage):
            _take(browser, stage, picture, folder / f"{picture.name}.png")
            print(f"{picture.name}.png", flush=True)
        browser.close()


def _take(browser: Browser, stage: Stage, picture: Picture, file: Path) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
        locale=picture.language,
        timezone_id="Asia/Taipei",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAIT_MS)
    session = {"user": stage.session, "pending": stage.pending}.get(picture.visitor)
    if session is not None:
        context.add_cookies([{"name": "sessionid", "value": session, "url": stage.home}])
    page = context.new_page()
    page.goto(stage.home + picture.address, wait_until="networkidle")
    page.screenshot(path=str(file))
    context.close()
