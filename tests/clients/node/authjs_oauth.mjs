// Auth.js without OpenID Connect.
const { AUTH_URL, BASE_URL, CLIENT_ID, CLIENT_SECRET } = process.env;

export const service = {
  id: "service",
  name: "Service",
  type: "oauth",
  clientId: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  authorization: { url: `${AUTH_URL}/oauth/authorize`, params: { scope: "profile" } },
  token: `${BASE_URL}/oauth/token`,
  userinfo: `${BASE_URL}/oauth/userinfo`,
  checks: ["pkce", "state"],
  profile: ({ sub, nickname, email, avatar }) => ({ id: sub, name: nickname, email, image: avatar }),
};
