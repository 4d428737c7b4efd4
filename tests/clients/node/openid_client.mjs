// The whole flow with openid-client, unchanged. Lines of JSON: where to send the browser; then, given the callback, the profile.
import * as client from "openid-client";
import { createInterface } from "node:readline/promises";

const { BASE_URL, AUTH_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } = process.env;
const config = new client.Configuration(
  {
    issuer: BASE_URL,
    authorization_endpoint: `${AUTH_URL}/oauth/authorize`,
    token_endpoint: `${BASE_URL}/oauth/token`,
    userinfo_endpoint: `${BASE_URL}/oauth/userinfo`,
  },
  CLIENT_ID,
  {},
  client.ClientSecretBasic(CLIENT_SECRET),
);
client.allowInsecureRequests(config);

const pkceCodeVerifier = client.randomPKCECodeVerifier();
const expectedState = client.randomState();
const url = client.buildAuthorizationUrl(config, {
  redirect_uri: REDIRECT_URI,
  scope: "profile",
  state: expectedState,
  code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
  code_challenge_method: "S256",
});
console.log(JSON.stringify({ url: url.href }));

const input = createInterface({ input: process.stdin });
const [callback] = await new Promise((resolve) => input.once("line", (line) => resolve([line])));
input.close();
try {
  const tokens = await client.authorizationCodeGrant(config, new URL(callback), { pkceCodeVerifier, expectedState });
  const profile = await client.fetchUserInfo(config, tokens.access_token, client.skipSubjectCheck);
  console.log(JSON.stringify({ type: tokens.token_type, expires_in: tokens.expires_in, profile }));
} catch (error) {
  console.log(JSON.stringify({ error: error.error, description: error.error_description }));
}
