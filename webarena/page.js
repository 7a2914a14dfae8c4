// Runs in every document before its own scripts. It learns which elements react to the pointer, gives the ones
// without a role or name an accessible one (so that the aria snapshot shows them), and tells when a page is at rest.
(() => {
  if (window.__coevo) return;

  const POINTER_EVENTS = new Set(["click", "dblclick", "mousedown", "mouseup", "pointerdown", "pointerup"]);
  const CONTROLS = "a[href],button,input,select,textarea,option,summary,label,iframe";
  const FIELDS = "button,input,select,textarea";
  const SHAPES = { circle: "circle", ellipse: "ellipse", rect: "rectangle", polygon: "polygon", line: "line", path: "path" };
  const COLOURS = {
    black: [0, 0, 0], white: [255, 255, 255], grey: [128, 128, 128], red: [255, 0, 0], green: [0, 128, 0],
    lime: [0, 255, 0], blue: [0, 0, 255], yellow: [255, 255, 0], orange: [255, 165, 0], purple: [128, 0, 128],
    pink: [255, 192, 203], magenta: [255, 0, 255], cyan: [0, 255, 255], brown: [165, 42, 42], olive: [128, 128, 0],
    navy: [0, 0, 128],
  };
  const ON_STATE = /^(selected|active|checked|pressed|push|on|clicked|highlighted|starred|liked)$/i;
  const HIDDEN = "coevo:hidden";
  const LONGEST_TRACKED_TIMER_MS = 600;

  // --- pointer listeners -------------------------------------------------------------------------------------
  const listeners = new Map(); // element → Set of "type:capture:listener number"
  const numbers = new WeakMap();
  let nextNumber = 0;
  const key = (type, listener, options) => {
    if (!numbers.has(listener)) numbers.set(listener, ++nextNumber);
    return `${type}:${Boolean(typeof options === "object" ? options?.capture : options)}:${numbers.get(listener)}`;
  };
  const isObject = (value) => value !== null && (typeof value === "object" || typeof value === "function");
  const { addEventListener, removeEventListener } = EventTarget.prototype;
  EventTarget.prototype.addEventListener = function (type, listener, options) {
    if (POINTER_EVENTS.has(type) && this instanceof Element && isObject(listener)) {
      if (!listeners.has(this)) listeners.set(this, new Set());
      listeners.get(this).add(key(type, listener, options));
    }
    return addEventListener.call(this, type, listener, options);
  };
  EventTarget.prototype.removeEventListener = function (type, listener, options) {
    if (isObject(listener)) listeners.get(this)?.delete(key(type, listener, options));
    return removeEventListener.call(this, type, listener, options);
  };

  // --- rest: short timers and DOM changes ----------------------------------------------------------------------
  const timers = new Set();
  const { setTimeout: plainSetTimeout, clearTimeout: plainClearTimeout } = window;
  window.setTimeout = function (handler, delay = 0, ...args) {
    if (typeof handler !== "function" || !(delay <= LONGEST_TRACKED_TIMER_MS)) return plainSetTimeout(handler, delay, ...args);
    const id = plainSetTimeout(() => {
      timers.delete(id);
      handler.apply(window, args);
    }, delay);
    timers.add(id);
    return id;
  };
  window.clearTimeout = function (id) {
    timers.delete(id);
    return plainClearTimeout(id);
  };
  let changes = 0;
  const observer = new MutationObserver(() => changes++);
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });

  const nextTask = () =>
    new Promise((resolve) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => resolve();
      channel.port2.postMessage(0);
    });

  // Resolves once no short timer is pending and the DOM stood still for a task, or after `limitMs`.
  async function settle(limitMs) {
    const end = performance.now() + limitMs;
    await nextTask();
    while (performance.now() < end) {
      const before = changes;
      if (timers.size || document.readyState === "loading" || (window.jQuery && window.jQuery.active)) {
        await new Promise((resolve) => plainSetTimeout(resolve, 8));
      } else {
        await nextTask();
        if (changes === before && !timers.size) return;
      }
    }
  }

  // Resolves at the next DOM change (then at rest), or after `limitMs`.
  async function waitForChange(limitMs) {
    const end = performance.now() + limitMs;
    const before = changes;
    while (changes === before && performance.now() < end) await new Promise((resolve) => plainSetTimeout(resolve, 15));
    await settle(Math.min(limitMs, 500));
  }

  // --- motion --------------------------------------------------------------------------------------------------
  const still = new CSSStyleSheet();
  still.replaceSync("*,*::before,*::after{transition:none!important;animation:none!important;scroll-behavior:auto!important;caret-color:transparent!important}");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];

  // --- names ---------------------------------------------------------------------------------------------------
  const clean = (text) => (text || "").replace(/\s+/g, " ").trim();
  const words = (identifier) => clean(identifier.replace(/[-_]+/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2")).toLowerCase();

  function colourName(css) {
    const parts = (css || "").match(/[\d.]+/g);
    if (!parts || css === "none" || (parts.length > 3 && Number(parts[3]) === 0)) return "";
    const [r, g, b] = parts.map(Number);
    let best = "";
    let distance = Infinity;
    for (const [name, [x, y, z]] of Object.entries(COLOURS)) {
      const d = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (d < distance) [best, distance] = [name, d];
    }
    return best;
  }

  function shapeName(element, sizes) {
    const named = element.getAttribute("fill") || "";
    const colour = /^[a-z]+$/i.test(named) && named !== "none" ? named : colourName(getComputedStyle(element).fill);
    let shape = SHAPES[element.localName] || clean(element.textContent);
    if (shape === "polygon" && (element.getAttribute("points") || "").trim().split(/[\s,]+/).length === 6) shape = "triangle";
    const size = sizes.spread >= 1.5 ? (sizes.of(element) * sizes.spread ** 0.5 >= sizes.largest ? "large" : "small") : "";
    return clean(`${size} ${colour} ${shape}`);
  }

  function shapeSizes(shapes) {
    const of = (element) =>
      element.localName === "text" ? parseFloat(getComputedStyle(element).fontSize) : Math.max(...["width", "height"].map((side) => element.getBBox()[side]));
    const all = shapes.map(of).filter((size) => size > 0);
    const largest = Math.max(0, ...all);
    return { of, largest, spread: all.length ? largest / Math.min(...all) : 1 };
  }

  // A name for an element without text: its title, its class or id in words, or its colour.
  function fallbackName(element) {
    const given = element.getAttribute("title") || element.getAttribute("alt") || element.getAttribute("data-color");
    if (given) return clean(given);
    if (element.style.backgroundColor) return colourName(getComputedStyle(element).backgroundColor);
    const tokens = [...element.classList].filter((token) => !ON_STATE.test(token) && !/^(d3|col|row)|-(state|corner|widget|all|default|active)/.test(token));
    const label = tokens.find((token) => !token.startsWith("ui-")) || element.id || tokens[tokens.length - 1] || "";
    return words(label.replace(/^ui-/, ""));
  }

  // The text just before (or, for boxes to tick, just after) an unnamed form field.
  function neighbourText(field, after) {
    for (let node = field, level = 0; node && level < 3; node = node.parentElement, level++) {
      let sibling = node;
      while ((sibling = after ? sibling.nextSibling : sibling.previousSibling)) {
        if (sibling.nodeType === Node.ELEMENT_NODE) {
          if (sibling.matches(FIELDS) || sibling.querySelector(FIELDS)) return "";
          if (stamps.get(sibling)?.["aria-label"] === HIDDEN) return "";
        }
        const text = clean(sibling.textContent).replace(/\s*[:*]+$/, "");
        if (text) return text.length <= 40 ? text : "";
      }
      if (node === document.body || node.parentElement?.querySelectorAll(FIELDS).length > 1) return "";
    }
    return "";
  }

  function nameField(field) {
    if (field.hasAttribute("aria-label") || field.hasAttribute("aria-labelledby") || field.title || field.placeholder) return;
    if ([...(field.labels || [])].some((label) => clean(label.textContent))) return;
    const tick = field.type === "checkbox" || field.type === "radio";
    const text = neighbourText(field, tick);
    if (text) stamp(field, null, text);
  }

  // --- roles ---------------------------------------------------------------------------------------------------
  const stamps = new WeakMap(); // element → attributes given by us

  // Sets our role, label and pressed state; null leaves one as it is, "" takes ours away. The page's own are kept.
  function stamp(element, role, label = null, pressed = null) {
    const mine = stamps.get(element) || {};
    const set = (name, value) => {
      if (value === null || (mine[name] === undefined && element.hasAttribute(name))) return;
      if (value) {
        if (mine[name] !== value) element.setAttribute(name, value);
        mine[name] = value;
      } else if (mine[name] !== undefined) {
        element.removeAttribute(name);
        delete mine[name];
      }
    };
    set("role", role);
    set("aria-label", label);
    set("aria-pressed", pressed === null ? null : pressed ? "true" : "");
    stamps.set(element, mine);
  }

  function delegated(element) {
    const events = window.jQuery?._data?.(element, "events");
    if (!events) return { own: true, targets: [] };
    const handlers = [...POINTER_EVENTS].flatMap((type) => events[type] || []);
    const selectors = handlers.map((handler) => handler.selector).filter(Boolean);
    const targets = selectors.flatMap((selector) => {
      try {
        return [...element.querySelectorAll(selector)];
      } catch {
        return []; // a selector only jQuery understands
      }
    });
    return { own: handlers.length > selectors.length || !handlers.length, targets };
  }

  function reactive() {
    const found = new Set();
    for (const [element, set] of listeners) {
      if (!element.isConnected) {
        listeners.delete(element);
        continue;
      }
      if (!set.size) continue;
      const { own, targets } = delegated(element);
      if (own) found.add(element);
      targets.forEach((target) => found.add(target));
    }
    for (const element of document.body.querySelectorAll("*")) {
      if (typeof element.onclick === "function" || typeof element.onmousedown === "function") found.add(element);
      else if (element.tabIndex >= 0 && element.hasAttribute("tabindex")) found.add(element);
    }
    return found;
  }

  const hasRole = (element) => {
    const role = element.getAttribute("role");
    return role !== null && stamps.get(element)?.role !== role;
  };

  // Gives roles and names where there are none. `hidden` is a selector of parts the agent must not see.
  function annotate(hidden) {
    const skip = hidden ? [...document.querySelectorAll(hidden)] : [];
    skip.forEach((element) => stamp(element, "note", HIDDEN));
    const skipped = (element) => skip.some((other) => other.contains(element));
    const clickable = reactive();
    const shapes = [...document.querySelectorAll("svg *")].filter(
      (element) =>
        (SHAPES[element.localName] || element.localName === "text") &&
        !element.closest("button,a,[role=button]:not(svg *)") && // an icon: its button has the name
        !skipped(element) &&
        element.getBBox().width + element.getBBox().height > 0,
    );
    if (shapes.length) {
      const sizes = shapeSizes(shapes);
      for (const shape of shapes) {
        const pointer = clickable.has(shape);
        stamp(shape, pointer ? "button" : "img", shapeName(shape, sizes), [...shape.classList].some((token) => ON_STATE.test(token)));
      }
    }
    for (const element of clickable) {
      if (element === document.body || element instanceof SVGElement || skipped(element)) continue;
      if (hasRole(element)) continue;
      if (element.matches(CONTROLS) || element.matches("tr,table,canvas") || element.querySelector("input,select,textarea,button,svg,table")) continue;
      const inner = [...clickable].filter((other) => other !== element && element.contains(other)).length;
      if (inner > 2) continue; // a container that listens for its children
      const text = clean(element.textContent);
      const label = inner ? text : text || element.querySelector("img[alt]") ? "" : fallbackName(element);
      const role = getComputedStyle(element).textDecorationLine.includes("underline") ? "link" : "button";
      stamp(element, role, label, [...element.classList].some((token) => ON_STATE.test(token)));
    }
    for (const element of document.body.querySelectorAll("button,a[href],[role=button]")) {
      if (!(element instanceof SVGElement) && !clean(element.innerText) && !element.title && !element.querySelector("img[alt]")) stamp(element, null, fallbackName(element));
    }
    for (const field of document.body.querySelectorAll("input,select,textarea")) nameField(field);
  }

  // --- acting --------------------------------------------------------------------------------------------------
  const describe = (element) => words(element.getAttribute("aria-label") || clean(element.textContent).slice(0, 30) || element.localName);

  let aimed = null; // the element of the last `prepare`

  // `prepare` for the element whose rounded box is `box` (x, y, width, height), which is quicker to find than its reference;
  // null if it is not in view there. `field`: it must be one to type into or choose from.
  function prepareAt([x, y, width, height], field) {
    const matches = (element) => {
      const box = element.getBoundingClientRect();
      const same = Math.round(box.x) === x && Math.round(box.y) === y && Math.round(box.width) === width && Math.round(box.height) === height;
      return same && (!field || element.matches("input,textarea,select,[contenteditable]"));
    };
    for (const hit of document.elementsFromPoint(x + width / 2, y + height / 2)) {
      for (let element = hit; element && element !== document.body; element = element.parentElement) {
        if (matches(element)) return element.localName === "iframe" ? null : prepare(element);
      }
    }
    return null;
  }

  // Brings `element` into view and returns a viewport point where it receives the pointer, or why there is none.
  function prepare(element) {
    aimed = element;
    if (!element.isConnected) return { error: "it is no longer on the page" };
    if (element.disabled || element.getAttribute("aria-disabled") === "true") return { error: "it is disabled" };
    let box = element.getBoundingClientRect();
    if (!box.width || !box.height) return { error: "it is not visible" };
    const inside = () => {
      const { x, y } = centre(element);
      const hit = document.elementFromPoint(x, y);
      return x >= 0 && y >= 0 && x < innerWidth && y < innerHeight && hit && (element.contains(hit) || hit.contains(element));
    };
    if (!inside()) element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    box = element.getBoundingClientRect();
    const first = centre(element);
    let cover = null;
    for (const [fx, fy] of [[0, 0], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1], [0.9, 0.9], [0.1, 0.9], [0.9, 0.1]]) {
      const x = fx ? box.x + box.width * fx : first.x;
      const y = fy ? box.y + box.height * fy : first.y;
      const hit = document.elementFromPoint(x, y);
      if (!hit) continue;
      const labelled = element.labels && [...element.labels].some((label) => label.contains(hit));
      if (hit === element || element.contains(hit) || labelled || hit.shadowRoot) {
        return { x, y, kind: element.localName, type: element.type || "", framed: window !== window.top, editable: isEditable(element) };
      }
      cover = cover || hit;
    }
    return { error: cover ? `it is covered by '${describe(cover)}'` : "it is out of view" };
  }

  function centre(element) {
    const box = element.getClientRects()[0] || element.getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  }

  const isEditable = (element) =>
    element.isContentEditable || ((element.localName === "input" || element.localName === "textarea") && !element.readOnly);

  // Selects what is in the field last prepared, so that typing replaces it.
  function selectContent() {
    const element = aimed;
    if (document.activeElement !== element) element.focus();
    if (typeof element.select === "function") element.select();
    else getSelection().selectAllChildren(element);
  }

  // Chooses options of a <select> by label; in a list of several choices the new ones are added.
  function choose(element, label) {
    const options = [...element.options];
    const option =
      options.find((candidate) => clean(candidate.label) === label) ||
      options.find((candidate) => clean(candidate.label).toLowerCase() === label.toLowerCase()) ||
      options.find((candidate) => candidate.value === label);
    if (!option) return { error: `it has no option '${label}'` };
    if (option.disabled || element.disabled) return { error: "it is disabled" };
    element.focus();
    option.selected = true;
    element.dispatchEvent(new Event("input", { bubbles: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
    return {};
  }

  function scroll(down, amount) {
    const boxes = [document.scrollingElement, ...document.body.querySelectorAll("*")].filter((element) => {
      if (!element || element.scrollHeight <= element.clientHeight + 1 || !element.clientHeight) return false;
      if (element === document.scrollingElement) return true;
      return /auto|scroll/.test(getComputedStyle(element).overflowY);
    });
    const rank = (element) => (element.contains(document.activeElement) && element !== document.scrollingElement ? 1e9 : 0) + element.clientHeight * element.clientWidth;
    const inner = boxes.filter((element) => element !== document.scrollingElement);
    const target = (inner.length ? inner : boxes).sort((a, b) => rank(b) - rank(a))[0];
    if (!target) return { error: "nothing to scroll" };
    const before = target.scrollTop;
    target.scrollTop += (down ? 1 : -1) * (amount || Math.max(40, target.clientHeight * 0.8));
    return target.scrollTop === before ? { error: `already at the ${down ? "bottom" : "top"}` } : {};
  }

  window.__coevo = { annotate, choose, prepare, prepareAt, scroll, selectContent, settle, waitForChange };
})();
