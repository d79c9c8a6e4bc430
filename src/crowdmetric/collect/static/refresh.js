// Keeps the researcher's page up to date without moving what is being read.
(function () {
  "use strict";
  setInterval(function () {
    var main = document.querySelector("main");
    if (document.hidden || main.querySelector("details[open]") || main.contains(document.activeElement)) { return; }
    fetch(location.pathname, { credentials: "same-origin" }).then(function (response) {
      return response.ok ? response.text() : "";
    }).then(function (html) {
      var fresh = new DOMParser().parseFromString(html, "text/html").querySelector("main");
      if (fresh) { main.replaceWith(document.adoptNode(fresh)); }
    }).catch(function () {});
  }, 20000);
}());
