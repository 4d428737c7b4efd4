// The whole flow with passport-oauth2, unchanged, on requests that hold what Express would put there.
import OAuth2Strategy from "passport-oauth2";
import { createInterface } from "node:readline/promises";

const { BASE_URL, AUTH_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } = process.env;

class Strategy extends OAuth2Strategy {
  userProfile(accessToken, done) {
    this._oauth2.useAuthorizationHeaderforGET(true);
    this._oauth2.get(`${BASE_URL}/oauth/userinfo`, accessToken, (error, body) => done(error, error ? null : JSON.parse(body)));
  }
}

const strategy = new Strategy(
  {
    authorizationURL: `${AUTH_URL}/oauth/authorize`,
    tokenURL: `${BASE_URL}/oauth/token`,
    clientID: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    callbackURL: REDIRECT_URI,
    state: true,
    pkce: true,
  },
  (accessToken, refreshToken, parameters, profile, done) => done(null, profile, { parameters, refreshToken }),
);

const session = {};
const authenticate = (query) =>
  new Promise((resolve) => {
    const attempt = Object.create(strategy);
    attempt.redirect = (url) => resolve({ url });
    attempt.success = (profile, info) => resolve({ profile, type: info.parameters.token_type, expires_in: info.parameters.expires_in });
    attempt.fail = (challenge) => resolve({ error: challenge?.message ?? "failed" });
    attempt.error = (error) => resolve({ error: error.code ?? error.message, description: error.message });
    attempt.authenticate({ query, session, headers: {}, connection: {} }, {});
  });

console.log(JSON.stringify(await authenticate({})));
const input = createInterface({ input: process.stdin });
const [callback] = await new Promise((resolve) => input.once("line", (line) => resolve([line])));
input.close();
console.log(JSON.stringify(await authenticate(Object.fromEntries(new URL(callback).searchParams))));
