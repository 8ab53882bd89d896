"""
Cameras of GStreamer's RTSP server, for a user and a password, without TLS and with a certificate, and a stream of HLS
in a folder, over HTTP/1.0. Prints their ports and what the server has as JSON.
"""

import functools
import http.server
import json
import sys
import threading

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtsp", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import Gio, GLib, Gst, GstRtsp, GstRtspServer
except (ImportError, ValueError):
    sys.exit("GStreamer is missing")

Gst.init(None)
ENCODERS = {
    "h264": ["x264enc", "x264enc tune=zerolatency key-int-max=10 ! rtph264pay pt=96 name=pay"],
    "h265": ["x265enc", "x265enc tune=zerolatency key-int-max=10 ! rtph265pay pt=96 name=pay"],
    "jpeg": ["jpegenc", "jpegenc ! rtpjpegpay pt=26 name=pay"],
}
SOURCE = "videotestsrc is-live=true pattern=red ! video/x-raw,format=I420,width=320,height=240,framerate=20/1"
SOUND = "audiotestsrc is-live=true ! alawenc ! rtppcmapay pt=8 name=pay0"

server = GstRtspServer.RTSPServer()
server.set_address("127.0.0.1")
server.set_service("0")
names = []
for name, (encoder, launch) in ENCODERS.items():
    if Gst.ElementFactory.find(encoder) is None:
        continue
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(f"( {SOUND} {SOURCE} ! {launch}1 )")
    server.get_mount_points().add_factory(f"/{name}", factory)
    names.append(name)

user, password, certificate, folder = sys.argv[1:]
token = GstRtspServer.RTSPToken()
token.set_string("media.factory.role", "viewer")
secure = GstRtspServer.RTSPServer()
secure.set_address("127.0.0.1")
secure.set_service("0")
secure.set_mount_points(server.get_mount_points())
for one in (server, secure):
    auth = GstRtspServer.RTSPAuth()
    auth.set_supported_methods(GstRtsp.RTSPAuthMethod.DIGEST)
    auth.add_digest(user, password, token)
    if one is secure:
        auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(certificate))
    one.set_auth(auth)
for name in names:
    factory = server.get_mount_points().match(f"/{name}")[0]
    rights = "viewer, media.factory.access=(boolean)true, media.factory.construct=(boolean)true"
    factory.add_role_from_structure(Gst.Structure.from_string(rights)[0])

server.attach(None)
secure.attach(None)
ports = {"port": server.get_bound_port(), "securePort": secure.get_bound_port()}
if "h264" in names and Gst.ElementFactory.find("hlssink2") is not None:
    sink = f"hlssink2 target-duration=1 location={folder}/%05d.ts playlist-location={folder}/live.m3u8"
    Gst.parse_launch(f"{SOURCE} ! x264enc tune=zerolatency key-int-max=20 ! {sink}").set_state(Gst.State.PLAYING)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=files.serve_forever, daemon=True).start()
    ports["hlsPort"] = files.server_port
print(json.dumps({**ports, "names": names}), flush=True)
GLib.MainLoop().run()
