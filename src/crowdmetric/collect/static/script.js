// Everything works without this file. It adds keys, preloading, response times and pages without a flash,
// and sends an answer again when the connection fails.
(function () {
  "use strict";
  var page = document.getElementById("page");
  var notice = document.getElementById("notice");
  var shownAt = 0;
  var busy = false;

  function ready() {
    busy = false;
    var form = page.querySelector("[data-question]");
    if (!form) { return; }
    var images = Array.prototype.slice.call(form.querySelectorAll("img"));
    var wait = images.map(function (image) {
      return image.decode ? image.decode().catch(function () {}) : Promise.resolve();
    });
    shownAt = performance.now();
    Promise.all(wait).then(function () {
      // the clock starts when both items can be seen
      requestAnimationFrame(function () { shownAt = performance.now(); });
    });
    (form.dataset.ahead || "").split(" ").filter(Boolean).forEach(function (number) {
      fetch("media/" + number, { credentials: "same-origin" }).catch(function () {});
    });
  }

  function swap(html) {
    page.innerHTML = html;
    document.body.classList.add("still");
    var title = page.querySelector("h1");
    if (title) { title.focus({ preventScroll: true }); }
    window.scrollTo(0, 0);
    ready();
  }

  function send(form, body, attempt) {
    fetch(form.getAttribute("action"), {
      method: "POST", body: body, credentials: "same-origin", headers: { "X-Fragment": "1" }
    }).then(function (response) {
      if ((response.status === 503 || response.status === 429) && attempt < 6) { throw new Error("busy"); }
      return response.text().then(function (html) { notice.textContent = ""; swap(html); });
    }).catch(function () {
      if (attempt < 6) {
        notice.textContent = document.body.dataset[navigator.onLine === false ? "offline" : "saving"];
        setTimeout(function () { send(form, body, attempt + 1); }, 400 * Math.pow(2, attempt));
      } else {
        notice.textContent = "";
        busy = false;
        form.submit();
      }
    });
  }

  page.addEventListener("submit", function (event) {
    var form = event.target;
    if (form.method !== "post" || form.getAttribute("action") !== "go") { return; }
    event.preventDefault();
    if (busy) { return; }
    busy = true;
    var body = new URLSearchParams(new FormData(form));
    var button = event.submitter;
    if (button && button.name) {
      body.set(button.name, button.value);
      // so that a plain form.submit() says the same
      var kept = document.createElement("input");
      kept.type = "hidden"; kept.name = button.name; kept.value = button.value;
      form.appendChild(kept);
      button.classList.add("chosen");
    }
    if (form.hasAttribute("data-question")) {
      body.set("ms", String(Math.max(0, Math.round(performance.now() - shownAt))));
      form.classList.add("waiting");
    }
    send(form, body, 0);
  });

  document.addEventListener("keydown", function (event) {
    var choice = { ArrowLeft: "left", ArrowRight: "right", ArrowDown: "tie" }[event.key];
    var tag = event.target.tagName;
    if (!choice || event.repeat || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) { return; }
    if (tag === "INPUT" || tag === "TEXTAREA" || tag === "AUDIO" || tag === "VIDEO") { return; }
    var button = page.querySelector('[data-question] button[value="' + choice + '"]');
    if (button) { event.preventDefault(); button.click(); }
  });

  document.addEventListener("pointermove", function () { document.body.classList.remove("still"); });
  // a page that the browser kept from before may be out of date
  window.addEventListener("pageshow", function (event) { if (event.persisted) { location.reload(); } });
  ready();
}());
