// Asks for the next portion as soon as this one is shown.
"use strict";

document.querySelector("form[data-go-on]")?.requestSubmit();
