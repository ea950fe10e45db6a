"""Source of handlers that do to their processor what they can, in record 2; and what is to become of that."""

PRELUDE = """
    import random, struct
    from headrace.runtime.wire import framing, outcomes
    from headrace.runtime.wire.framing import FrameKind
    from headrace.runtime.wire.outcomes import Ack
    from headrace.runtime.wire.reply import Reply, encode_reply
    SOCKET = int(sys.argv[1])

    def say(*frames):
        os.write(SOCKET, b"".join(frames))

    def its_names():
        frame = sys._getframe()
        while frame.f_code.co_name != "_handle_run":
            frame = frame.f_back
        return frame.f_locals

    def its_end():
        header = its_names()["run"].header
        return header.first_seq + header.count

    def begun(kind, size):
        return struct.pack("<I", size) + framing.frame(kind)[4:]

    def descriptors():
        return [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]

    def on_each(act):
        for fd in descriptors():
            try:
                act(fd)
            except OSError:
                pass

    def fail():
        raise ValueError("this record has failed")

    def act(seq):
        {act}

    def handler(context, event):
        write(event.offset)
        if event.offset == 2:
            act(its_names()["seq"])
            {then}
"""
STAYS = "time.sleep(60)"
RETURNS = "pass"

# For what it is killed while it is in the record: an attempt of that.
LIES = {
    "random bytes": "say(random.Random(7).randbytes(200))",
    "random bytes on every descriptor": "on_each(lambda fd: os.write(fd, random.Random(7).randbytes(99)))",
    "progress beyond all that it was given": "say(outcomes.encode_progress(2**40, 0, 1))",
    "progress over records that have not begun": "say(outcomes.encode_progress(seq + 2, 0, 1))",
    "progress in more time than there was": "say(outcomes.encode_progress(seq, 2**63, 1))",
    "progress of a record that took longer than all": "say(outcomes.encode_progress(seq, 0, 1, 1))",
    "progress of more records than there were": "say(outcomes.encode_progress(seq, 0, 2**31))",
    "the failure of a record that has not begun": "say(outcomes.encode_failed(seq + 1, seq + 2, 'no'))",
    "the failure of several": "say(outcomes.encode_failed(seq, seq + 2, 'no'))",
    "the failure of none": "say(outcomes.encode_failed(seq, seq, 'no'))",
    "the failure of another's": "say(outcomes.encode_failed(2**63, 2**63 + 1, 'no'))",
    "it gives back what it never had": "say(outcomes.encode_returned([(0, 2**40)]))",
    "it gives back what is past": "say(outcomes.encode_returned([(max(seq, 1) - 1, seq + 2)]))",
    "it gives back what it is in": "say(outcomes.encode_returned([(seq, its_end())]))",
    "no ack of a record that has not begun": "say(outcomes.encode_seq(FrameKind.UNACKED, seq + 1))",
    "no ack of another's": "say(outcomes.encode_seq(FrameKind.UNACKED, 2**63))",
    "an answer to a record that has not begun": "say(encode_reply(seq + 1, Reply(200, '', (), b'')))",
    "an answer with a status that is none": "say(encode_reply(seq, Reply(7, '', (), b'')))",
    "an answer whose headers have no end": (
        "say(framing.frame(FrameKind.REPLY, struct.pack('<QI?IIii', seq, 200, False, 0, 8, -8, 0)))"
    ),
    "acks beyond what it was given": "say(outcomes.encode_acked({lane_id}, 0, 2**50, 1))",
    "an ack that is none": "say(framing.frame(FrameKind.ACK, b'0'))",
    "a length that no frame has": "say(begun(FrameKind.LOG, 2**32 - 1))",
    "a frame without a kind": "say(begun(FrameKind.LOG, 0))",
    "a log line that is none": "say(outcomes.encode_about(FrameKind.LOG, seq, '{\"level\": 1}'))",
    "a log line without a bottom": "say(outcomes.encode_about(FrameKind.LOG, seq, '[' * 100_000))",
    "it is loaded for the second time": "say(framing.frame(FrameKind.READY, b'1'))",
    "it can't be loaded after all": "say(outcomes.encode_init_failed('no'))",
    "what only a processor says": "say(framing.frame(FrameKind.STOP))",
    "a Spark session where there is none": "say(framing.frame(FrameKind.SPARK_SESSION, b'x'))",
    "its ack slot is beyond what it was given": "scribble(2, {lane_id}, 0, 2**50)",
    "it kills itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "it kills its group": "os.killpg(0, signal.SIGKILL)",
    "it ends": "os._exit(0)",
    "it shuts the socket down": "__import__('socket').socket(fileno=os.dup(SOCKET)).shutdown(2)",
}
# What its own runtime says behind that is not understood, so that the failure isn't heard.
SWALLOWS = {
    "three bytes": "say(b'abc')",
    "a frame that is cut short": "say(begun(FrameKind.LOG, 1 << 20))",
    "an answer that is cut short": "say(begun(FrameKind.REPLY, 60 << 20))",
    "a frame that has its failure for a body": "say(begun(FrameKind.PROGRESS, 100))",
}
# Where it was isn't known then.
SCRIBBLES = {
    "its slot is beyond what it was given": "scribble(0, 2**63 + 1)",
    "its slot is full of ones": "scribble(0, *[2**64 - 1] * 5)",
}
# Nothing comes of it.
HARMLESS = {
    "progress that was said before": "say(outcomes.encode_progress(0, 0, 1))",
    "acks of a lane that it does not know": "say(outcomes.encode_acked(2**32 - 1, 0, 2**50, 1))",
    "an ack of a partition that is not here": "say(outcomes.encode_ack(Ack('another', 7, 2**40, True)))",
    "every descriptor cut short": "on_each(lambda fd: os.ftruncate(fd, 0))",
    "every descriptor made longer": "on_each(lambda fd: os.ftruncate(fd, 1 << 20))",
    "bytes in its memory": "on_each(lambda fd: fd == SOCKET or os.pwrite(fd, bytes([9]) * 40, 0))",
    "a flood of log lines": (
        '[say(outcomes.encode_about(FrameKind.LOG, seq, \'{"level": 1, "message": "", "with": {}}\'))'
        " for _ in range(5000)]"
    ),
}
