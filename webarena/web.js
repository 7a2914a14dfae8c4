// Runs in every document of a site, after page.js. Keeps the page among the allowed origins (`__coevoOrigins`, set before
// this), and tells when it is about to leave or to open another page, which shows outside only later.
(() => {
  if (window.__coevoWeb) return;
  const state = { leaving: 0, opening: 0, refused: "" };
  const allowed = (url) => {
    try {
      const { origin, protocol } = new URL(url, document.baseURI);
      return !/^https?:$/.test(protocol) || __coevoOrigins.includes(origin);
    } catch {
      return true; // what is no address leads nowhere
    }
  };

  window.navigation?.addEventListener("navigate", (event) => {
    const { sameDocument, url } = event.destination;
    if (sameDocument || event.hashChange || event.downloadRequest !== null || !/^https?:/.test(url)) return;
    if (allowed(url)) {
      state.leaving = performance.now();
    } else if (event.cancelable) {
      event.preventDefault();
      state.refused = url;
    }
  });
  window.navigation?.addEventListener("navigateerror", () => (state.leaving = 0));

  const open = window.open;
  window.open = function (url, ...rest) {
    if (url && !allowed(url)) {
      state.refused = String(new URL(url, document.baseURI));
      return null;
    }
    state.opening = performance.now();
    return open.call(window, url, ...rest);
  };
  const inNewTab = (target) => target && !/^_(self|parent|top)$/i.test(target) && !document.querySelector(`iframe[name="${CSS.escape(target)}"]`);
  // Last of all listeners, so that a page that handles the click itself is left alone.
  window.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href],area[href]") : null;
    if (!link || event.defaultPrevented || !inNewTab(link.target)) return;
    if (allowed(link.href)) state.opening = performance.now();
    else {
      event.preventDefault();
      state.refused = link.href;
    }
  });
  window.addEventListener("submit", (event) => {
    if (!event.defaultPrevented && inNewTab(event.target.target)) state.opening = performance.now();
  });

  // What happened since the last call: [will leave, will open a page, address refused].
  function news(sinceMs) {
    const recent = (time) => time > 0 && performance.now() - time < sinceMs;
    const found = [recent(state.leaving), recent(state.opening), state.refused];
    state.opening = 0;
    state.refused = "";
    return found;
  }

  // Scrolls what a mouse wheel over the middle of the window would scroll.
  function scroll(down) {
    const moves = (element) => {
      const before = element.scrollTop;
      element.scrollTop += (down ? 1 : -1) * Math.max(40, element.clientHeight * 0.8);
      return element.scrollTop !== before;
    };
    const scrolls = (element) => element.scrollHeight > element.clientHeight + 1 && /auto|scroll|overlay/.test(getComputedStyle(element).overflowY);
    for (let element = document.elementFromPoint(innerWidth / 2, innerHeight / 2); element; element = element.parentElement) {
      if (element !== document.body && element !== document.scrollingElement && scrolls(element) && moves(element)) return {};
    }
    if (document.scrollingElement && moves(document.scrollingElement)) return {};
    const inner = [...document.body.querySelectorAll("*")].filter(scrolls).sort((a, b) => b.clientHeight * b.clientWidth - a.clientHeight * a.clientWidth);
    for (const element of inner.slice(0, 5)) if (moves(element)) return {};
    return { error: `already at the ${down ? "bottom" : "top"}` };
  }

  window.__coevoWeb = { news, scroll };
})();
