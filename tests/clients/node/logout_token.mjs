// A logout token, verified by jose. It reads the token as a line, and prints a line of JSON: the header and the content.
import { createRemoteJWKSet, jwtVerify } from "jose";
import { createInterface } from "node:readline/promises";

const { BASE_URL, CLIENT_ID, ALGORITHM } = process.env;
const { issuer, jwks_uri } = await (await fetch(`${BASE_URL}/.well-known/openid-configuration`)).json();
const input = createInterface({ input: process.stdin });
const [token] = await new Promise((resolve) => input.once("line", (line) => resolve([line])));
input.close();
try {
  const verified = await jwtVerify(token, createRemoteJWKSet(new URL(jwks_uri)), {
    issuer,
    audience: CLIENT_ID,
    typ: "logout+jwt",
    algorithms: [ALGORITHM],
    requiredClaims: ["iat", "exp", "jti", "events", "sub", "sid"],
  });
  console.log(JSON.stringify({ header: verified.protectedHeader, content: verified.payload }));
} catch (error) {
  console.log(JSON.stringify({ error: error.code, description: error.message }));
}
