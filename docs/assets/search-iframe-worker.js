/* What search needs beyond the theme: it works in pages that are opened from the disk, and takes questions. */
"use strict";

{
  /* Words of a question that say nothing about the answer. The theme would look for all words that begin with them. */
  const FILLERS = new Set(
    ("a about am an and any are as at be by can could do does for from get give has have how i if in into is it its make me my of on " +
      "one or our should so some than that the their them then there these this to up use using want was we what when where which " +
      "who why will with without work works would you your").split(" "),
  );
  const QUERY = 2; // the type of message by which the theme asks its worker

  const withoutFillers = (message) => {
    if (message.type !== QUERY) return message;
    const words = message.data.split(/\s+/).filter((word) => !FILLERS.has(word.toLowerCase()));
    return words.some(Boolean) ? { ...message, data: words.join(" ") } : message;
  };

  /* A page that is opened from the disk may not start a worker, so the search runs in a hidden frame there instead. */
  class Frame extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = async (...urls) => {
        for (const one of urls) await this.load(one);
      };
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  }

  const Base = location.protocol === "file:" ? Frame : Worker;
  window.Worker = class extends Base {
    postMessage(message) {
      super.postMessage(withoutFillers(message));
    }
  };
  if (Base === Frame) window.IFrameWorker = window.Worker; // by which the worker knows that it is in a frame
}
