// Browsers start no worker for a page that was opened from disk. There, the worker of the site's
// search runs in a hidden frame instead. (mkdocs-material looks for the name of this file.)
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...urls) => {
        for (const each of urls) await this.load(each);
      };
      this.load(url).then(() => {
        const { waiting } = this;
        this.waiting = null;
        for (const data of waiting) this.postMessage(data);
      });
    }

    load(url) {
      const script = this.frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href).href;
      return new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
        this.frame.contentDocument.head.append(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
