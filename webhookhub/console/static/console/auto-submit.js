// Submits the form of the next portion.
"use strict";

document.querySelector("form[data-auto-submit]")?.requestSubmit();
