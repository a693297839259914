"""What is in a stream, by a client of its own."""

import asyncio
import json

import nats as client


def ask(url, question, **options):
    """What a function of a JetStream context answers."""

    async def connect_and_ask():
        connection = await client.connect(url, **options)
        try:
            return await question(connection.jetstream())
        finally:
            await connection.close()

    return asyncio.run(connect_and_ask())


def messages_in(url, stream):
    """(subject, id, notification) of all messages."""

    async def read(jetstream):
        state = (await jetstream.stream_info(stream)).state
        return [await jetstream.get_msg(stream, n) for n in range(1, state.last_seq + 1)]

    return [
        (one.subject, one.headers["Nats-Msg-Id"], json.loads(one.data)) for one in ask(url, read)
    ]
