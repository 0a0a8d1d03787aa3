// Follows the server's states; comes back by itself when the server does.

const SILENCE_MS = 8000; // the server speaks every 2 s
const AGAIN_MS = 2000;

export function follow({ state, lost }) {
  let source = null;
  let heard = performance.now();
  let since = null; // when the connection was lost

  function open() {
    close();
    heard = performance.now();
    source = new EventSource("api/events");
    source.addEventListener("state", (event) => {
      hear();
      state(JSON.parse(event.data));
    });
    source.addEventListener("beat", hear);
    source.addEventListener("error", lose);
  }

  function close() {
    source?.close();
    source = null;
  }

  function hear() {
    heard = performance.now();
    if (since !== null) lost((since = null));
  }

  function lose() {
    if (since === null) since = Date.now();
    lost(since);
  }

  setInterval(() => {
    if (document.hidden) return;
    if (!source) return open();
    const silent = performance.now() - heard;
    if (silent > SILENCE_MS) lose();
    // A refused connection, or one that is silent, does not come back by itself.
    if (silent > SILENCE_MS || (source.readyState === EventSource.CLOSED && silent > AGAIN_MS)) open();
  }, 500);

  // A browser gives a server few connections: pages that nobody sees leave theirs to others.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  if (!document.hidden) open();
}
