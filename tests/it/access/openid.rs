//! Tokens of an OpenID issuer, which is a server of this test.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use axum::{Json, Router, http::StatusCode, routing::get};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::net::TcpListener;

use super::{LOCKED, send, status};
use crate::support::{app::TestApp, values::photo};

/// A key that signs tokens.
struct SigningKey {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    fn new(id: &'static str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { id, pair }
    }

    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let text = |bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": text(&point[1..33]), "y": text(&point[33..]),
        })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", text(header), text(claims));
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes());
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature.unwrap());
        format!("{message}.{signature}")
    }

    fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": self.id});
        self.sign(&header, claims)
    }
}

/// The issuer: the keys that it publishes, whether it answers, and how often it was asked for them.
#[derive(Default)]
struct Issuer {
    url: String,
    keys: Mutex<Vec<Value>>,
    is_away: AtomicBool,
    reads: AtomicUsize,
}

impl Issuer {
    async fn start(key: &SigningKey) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realm", listener.local_addr().unwrap());
        let issuer = Arc::new(Self {
            url: url.clone(),
            keys: Mutex::new(vec![key.jwk()]),
            ..Self::default()
        });
        let document = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let published = Arc::clone(&issuer);
        let keys = get(async move || {
            published.reads.fetch_add(1, Ordering::Relaxed);
            match published.is_away.load(Ordering::Relaxed) {
                true => Err(StatusCode::SERVICE_UNAVAILABLE),
                false => Ok(Json(json!({"keys": *published.keys.lock().unwrap()}))),
            }
        });
        let routes = Router::new()
            .route(
                "/realm/.well-known/openid-configuration",
                get(async move || Json(document)),
            )
            .route("/realm/keys", keys);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        issuer
    }

    async fn app(&self) -> TestApp {
        TestApp::with(&[
            LOCKED,
            ("FACESCAN__OPENID__ISSUER", &self.url),
            ("FACESCAN__OPENID__AUDIENCE", "facescan"),
            ("FACESCAN__OPENID__SCOPE_PREFIX", "faces:"),
        ])
        .await
    }

    /// Returns the claims of a token that is valid now.
    fn claims(&self) -> Value {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        json!({
            "iss": self.url, "aud": ["other", "facescan"], "sub": "Jane Doe", "exp": now + 300,
            "tenant": "north", "scope": "openid faces:infer faces:read admin",
        })
    }
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test]
async fn a_token_opens_the_routes_of_its_scopes_for_its_tenant() {
    let key = SigningKey::new("first");
    let issuer = Issuer::start(&key).await;
    let app = issuer.app().await;
    let token = key.token(&issuer.claims());
    let body = json!({"images": [photo("t1.jpg")]}).to_string();
    let stored = send(&app, &token, ("POST", "/detect?store=true"), body).await;
    assert_eq!(stored.status, StatusCode::OK);
    let images = send(&app, &token, ("GET", "/images"), "").await;
    assert_eq!(images.json()["results"].as_array().unwrap().len(), 1);
    // `admin` has no prefix, so it is not a scope of this server.
    for uri in ["/keys", "/metrics", "/batches"] {
        assert_eq!(status(&app, &token, ("GET", uri)).await, 403, "{uri}");
    }
    let claims = with(issuer.claims(), "tenant", json!("south"));
    let claims = with(claims, "scope", json!(["faces:read"]));
    let images = send(&app, &key.token(&claims), ("GET", "/images"), "").await;
    assert_eq!(images.json()["results"], json!([]));
    assert_eq!(issuer.reads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn other_tokens_are_refused() {
    let key = SigningKey::new("first");
    let issuer = Issuer::start(&key).await;
    let app = issuer.app().await;
    let (claims, now) = (issuer.claims(), OffsetDateTime::now_utc().unix_timestamp());
    let changed = |name: &str, value: Value| key.token(&with(claims.clone(), name, value));
    let valid = key.token(&claims);
    let (message, _) = valid.rsplit_once('.').unwrap();
    let other = changed("sub", json!("John Doe"));
    let (_, signature) = other.rsplit_once('.').unwrap();
    let header = |alg: &str| json!({"alg": alg, "kid": "first"});
    let critical = json!({"alg": "ES256", "kid": "first", "crit": ["exp"]});
    for (name, token) in [
        ("another issuer", changed("iss", json!("https://evil.test"))),
        ("another audience", changed("aud", json!("another"))),
        ("no audience", changed("aud", Value::Null)),
        ("expired", changed("exp", json!(now - 61))),
        ("never expires", changed("exp", Value::Null)),
        ("not yet valid", changed("nbf", json!(now + 100))),
        ("no tenant", changed("tenant", Value::Null)),
        ("not a tenant", changed("tenant", json!("../north"))),
        ("another key", SigningKey::new("first").token(&claims)),
        ("unknown key", SigningKey::new("unknown").token(&claims)),
        ("no signature", format!("{message}.")),
        ("another signature", format!("{message}.{signature}")),
        ("alg none", key.sign(&header("none"), &claims)),
        ("a shared secret", key.sign(&header("HS256"), &claims)),
        ("another algorithm", key.sign(&header("RS256"), &claims)),
        ("critical extensions", key.sign(&critical, &claims)),
        ("no token", "a.b.c".to_owned()),
    ] {
        assert_eq!(
            status(&app, &token, ("GET", "/images")).await,
            401,
            "{name}"
        );
    }
    let within_leeway = changed("exp", json!(now - 30));
    for accepted in [&valid, &within_leeway] {
        assert_eq!(status(&app, accepted, ("GET", "/images")).await, 200);
    }
    // Tokens with unknown keys do not make the server ask the issuer each time.
    assert!(issuer.reads.load(Ordering::Relaxed) <= 2);
}

#[tokio::test]
async fn an_issuer_that_is_away_is_named_and_known_keys_still_work() {
    let key = SigningKey::new("first");
    let issuer = Issuer::start(&key).await;
    let (first, second) = (issuer.app().await, issuer.app().await);
    let token = key.token(&issuer.claims());
    let images = async |app: &TestApp| send(app, &token, ("GET", "/images"), "").await;
    assert_eq!(images(&first).await.status, StatusCode::OK);
    issuer.is_away.store(true, Ordering::Relaxed);
    assert_eq!(images(&first).await.status, StatusCode::OK);
    let reply = images(&second).await;
    reply.assert_error(503, "issuer_unavailable");
}

#[tokio::test]
async fn an_issuer_without_an_audience_stops_the_start() {
    let settings = [("FACESCAN__OPENID__ISSUER", "https://issuer.example.com")];
    let refused = TestApp::refusal(&settings).await;
    assert!(refused.contains("openid.audience"), "{refused}");
}
