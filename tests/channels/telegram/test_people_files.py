"""What belongs to one person, at the shipped gateway: files and memory of a user, of the owner, and what others get."""

import json
from pathlib import Path

from tests.channels.telegram.gateway import furnished, running
from tests.channels.telegram.test_rights_live import House, Model, offered
from tests.fakes.telegram_server import User

FILES = {"read_file", "write_file", "edit_file", "list_dir", "glob", "grep", "delete_file"}
GROUP = -100


async def let_in(at: House, owner: User, who: User, *granted: str) -> None:
    code = (await at.command(who, "/pair")).split("/pair ")[1].split("`")[0].rstrip(".")
    await at.command(owner, f"/pair {code}")
    if granted:
        await at.command(owner, f"/people grant {who.id} {' '.join(granted)}")


async def test_U47_what_a_user_keeps_reaches_no_request_for_another_user_a_guest_or_a_group(tmp_path: Path) -> None:
    async with furnished(tmp_path) as (telegram, llm, ada, home):
        llm.after = model = Model()
        ann, bob = telegram.user("Ann"), telegram.user("Bob")
        people = home.home / "workspace" / "people"
        for who in (ann, bob):
            (people / f"telegram-{who.id}" / "memory").mkdir(parents=True)
        (people / f"telegram-{ann.id}" / "USER.md").write_text("secretann-about")
        (people / f"telegram-{ann.id}" / "memory" / "MEMORY.md").write_text("secretann-memory")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            await let_in(at, ada, ann, "files")
            await let_in(at, ada, bob, "files")
            members = [telegram.member(one.name, GROUP, user_id=one.id) for one in (ada, ann)]
            await at.command(members[0], "/group on")
            own, _ = await at.ask(
                ann, "CALL write_file " + json.dumps({"path": "plan.md", "content": "secretann-file"})
            )
            assert offered(own) >= FILES
            assert all(f"secretann-{what}" in own for what in ("about", "memory", "file"))
            assert (people / f"telegram-{ann.id}" / "plan.md").read_text() == "secretann-file"
            assert "read_file" in await at.command(ann, "/tools")
            assert "read_file" not in await at.command(members[0], "/tools")
            for who in (ada, ann):
                who.send("document", f"secret{who.name.lower()}-sent".encode(), "word-sent", file_name="sent.txt")
                await at.until(who.id, lambda line: "bot: answer word-sent" in line)
            assert (people / f"telegram-{ann.id}" / "inbox" / "sent.txt").read_text() == "secretann-sent"
            assert "secretada-sent" in (await at.ask(ada, 'CALL read_file {"path": "inbox/sent.txt"}'))[0]
            at.model.seen.clear()
            for place in ("inbox/sent.txt", "../../inbox/sent.txt", f"{home.home}/workspace/inbox/sent.txt"):
                await at.ask(bob, "CALL read_file " + json.dumps({"path": place}))
            for place in (
                "plan.md",
                f"../telegram-{ann.id}/inbox/sent.txt",
                f"../telegram-{ann.id}/plan.md",
                f"people/telegram-{ann.id}/plan.md",
            ):
                await at.ask(bob, "CALL read_file " + json.dumps({"path": place}))
            await at.ask(bob, "CALL grep " + json.dumps({"pattern": "secret", "path": "."}))
            for who in (*members, telegram.member("Eve", GROUP)):
                request, _ = await at.ask(who, "CALL read_file " + json.dumps({"path": "inbox/sent.txt"}))
                assert not FILES & offered(request)
            requests = [request for _, request in at.model.seen]
            assert not any("secretann" in request or "secretada" in request for request in requests)
