// Runs a snippet of the documents. Lines of JSON: where to send the browser; then, given the callback, the profile.
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline/promises";
import { pathToFileURL } from "node:url";

const { SNIPPET, KIND, REDIRECT_URI } = process.env;
const snippet = await import(pathToFileURL(SNIPPET));
const origin = new URL(REDIRECT_URI).origin;
const SECRET = randomBytes(32).toString("hex");

// A browser at the application: it keeps the cookies.
const cookies = new Map();
const visit = async (handle, address, options = {}) => {
  const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "), origin, ...options.headers };
  const response = await handle(new Request(new URL(address, origin), { ...options, headers }));
  for (const cookie of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
    cookies.set(name, value);
  }
  return response;
};

const kinds = {
  functions: async () => {
    if (snippet.config) (await import("openid-client")).allowInsecureRequests(snippet.config);
    const [url, kept] = await snippet.signInUrl();
    return { url, finish: (callback) => snippet.profileOf(callback, kept) };
  },
  passport: async () => {
    const session = {};
    const authenticate = (query) =>
      new Promise((resolve, reject) => {
        const attempt = Object.create(snippet.strategy);
        Object.assign(attempt, { redirect: (url) => resolve({ url }), success: resolve, error: reject });
        attempt.fail = (challenge) => reject(new Error(challenge.message));
        attempt.authenticate({ query, session, headers: {}, connection: {} }, {});
      });
    const { url } = await authenticate({});
    return { url, finish: (callback) => authenticate(Object.fromEntries(new URL(callback).searchParams)) };
  },
  authjs: async () => {
    const { Auth } = await import("@auth/core");
    const { service, callbacks } = snippet;
    const config = { providers: [service], callbacks, secret: SECRET, trustHost: true, basePath: "/api/auth" };
    const handle = (request) => Auth(request, config);
    const { csrfToken } = await (await visit(handle, "/api/auth/csrf")).json();
    const body = new URLSearchParams({ csrfToken });
    const away = await visit(handle, "/api/auth/signin/service", { method: "POST", body });
    const finish = async (callback) => {
      await visit(handle, callback);
      const { user } = await (await visit(handle, "/api/auth/session")).json();
      return { ...user, sub: user.id };
    };
    return { url: away.headers.get("location"), finish };
  },
  betterAuth: async () => {
    const { betterAuth } = await import("better-auth");
    const auth = betterAuth({ ...snippet.options, baseURL: origin, secret: SECRET });
    const body = JSON.stringify({ provider: "service", callbackURL: "/" });
    const headers = { "content-type": "application/json" };
    const away = await visit(auth.handler, "/api/auth/sign-in/social", { method: "POST", body, headers });
    const finish = async (callback) => {
      await visit(auth.handler, callback);
      const { user } = await (await visit(auth.handler, "/api/auth/get-session")).json();
      const [account] = await (await visit(auth.handler, "/api/auth/list-accounts")).json();
      return { ...user, sub: account.accountId };
    };
    return { url: (await away.json()).url, finish };
  },
};

const { url, finish } = await kinds[KIND]();
console.log(JSON.stringify({ url }));
const input = createInterface({ input: process.stdin });
const [callback] = await new Promise((resolve) => input.once("line", (line) => resolve([line])));
input.close();
try {
  console.log(JSON.stringify({ profile: await finish(callback) }));
} catch (error) {
  console.log(JSON.stringify({ error: error.message }));
}
