// OpenID Connect with openid-client and all its checks, unchanged. Lines of JSON: where to send the browser; then, given the callback, what it learned.
import * as client from "openid-client";
import { createInterface } from "node:readline/promises";

const { BASE_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI, ALGORITHM } = process.env;
const config = await client.discovery(
  new URL(BASE_URL),
  CLIENT_ID,
  { id_token_signed_response_alg: ALGORITHM },
  client.ClientSecretPost(CLIENT_SECRET),
  { execute: [client.allowInsecureRequests, client.enableNonRepudiationChecks] },
);

const pkceCodeVerifier = client.randomPKCECodeVerifier();
const checks = { pkceCodeVerifier, expectedState: client.randomState(), expectedNonce: client.randomNonce(), maxAge: 300 };
const url = client.buildAuthorizationUrl(config, {
  redirect_uri: REDIRECT_URI,
  scope: "openid profile email",
  state: checks.expectedState,
  nonce: checks.expectedNonce,
  max_age: checks.maxAge,
  code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
  code_challenge_method: "S256",
});
console.log(JSON.stringify({ url: url.href }));

const input = createInterface({ input: process.stdin });
const [callback] = await new Promise((resolve) => input.once("line", (line) => resolve([line])));
input.close();
try {
  const tokens = await client.authorizationCodeGrant(config, new URL(callback), { ...checks, idTokenExpected: true });
  const claims = tokens.claims();
  const profile = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
  const before = await client.tokenIntrospection(config, tokens.access_token);
  await client.tokenRevocation(config, tokens.access_token);
  const after = await client.tokenIntrospection(config, tokens.access_token);
  const [header] = tokens.id_token.split(".");
  const { alg } = JSON.parse(Buffer.from(header, "base64url"));
  console.log(JSON.stringify({ alg, claims, profile, active: [before.active, after.active] }));
} catch (error) {
  console.log(JSON.stringify({ error: error.code, description: error.message }));
}
