// Adds or uses a security key: a form with data-webauthn asks the browser, and sends its response as a field.
(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  const options = (source) => {
    const key = source.publicKey;
    key.challenge = bytes(key.challenge);
    if (key.user) key.user.id = bytes(key.user.id);
    for (const list of [key.excludeCredentials, key.allowCredentials]) {
      for (const credential of list || []) credential.id = bytes(credential.id);
    }
    return { publicKey: key };
  };

  const document_of = (credential) => {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response, clientExtensionResults: {} };
  };

  for (const form of document.querySelectorAll("form[data-webauthn]")) {
    const field = form.querySelector("input[name=response]");
    const error = form.querySelector("[data-webauthn-error]");
    form.addEventListener("submit", async (event) => {
      if (field.value) return;
      event.preventDefault();
      error.hidden = true;
      try {
        const source = options(JSON.parse(document.getElementById("webauthn-options").textContent));
        field.value = JSON.stringify(document_of(await navigator.credentials[form.dataset.webauthn](source)));
        form.submit();
      } catch {
        error.hidden = false;
      }
    });
  }
})();
