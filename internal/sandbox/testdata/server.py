#!/usr/bin/python3
# The calls that Python makes with grpcio, its asynchronous half too, and numpy: threads,
# linear algebra, files mapped to memory, random numbers and children. It prints "served"
# where all of them are answered.
import asyncio, concurrent.futures, hashlib, os, random, ssl, subprocess, tempfile
import google.protobuf, grpc, numpy

a = numpy.random.rand(300, 300)
numpy.linalg.svd(a)
numpy.fft.fft(a)
mapped = numpy.memmap(os.environ["MAPPED"], mode="r")
assert mapped.sum() > 0
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert len(list(pool.map(lambda i: (a @ a).sum(), range(8)))) == 8
address = "unix:" + os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "p")
server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
server.add_insecure_port(address)
server.start()
server.stop(0).wait()


async def serve():
    child = await asyncio.create_subprocess_exec("true")
    assert await child.wait() == 0
    server = grpc.aio.server()
    server.add_insecure_port(address)
    await server.start()
    await server.stop(0)


asyncio.run(serve())
assert subprocess.run(["echo", "x"], stdout=subprocess.PIPE).stdout == b"x\n"
ssl.create_default_context()
random.random(), os.urandom(8), hashlib.sha256(b"x").digest()
print("served")
