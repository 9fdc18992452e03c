//! Verifies signatures of tokens with ring, the cryptographic library of all TLS connections.
//!
//! The library of tokens brings providers of its own. One of them would add a second large library to the binary, and the
//! other one has a known weakness of RSA (RUSTSEC-2023-0071).

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error, Verifier},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: refuse_to_sign,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes the library of tokens use ring. Later calls have no effect.
pub(super) fn install() {
    PROVIDER.install_default().ok();
}

fn refuse_to_sign(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier {
        algorithm: *algorithm,
        key: key.clone(),
    }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match self.algorithm {
            Algorithm::RS256 => self.rsa(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Algorithm::RS384 => self.rsa(&RSA_PKCS1_2048_8192_SHA384, message, signature),
            Algorithm::RS512 => self.rsa(&RSA_PKCS1_2048_8192_SHA512, message, signature),
            Algorithm::PS256 => self.rsa(&RSA_PSS_2048_8192_SHA256, message, signature),
            Algorithm::PS384 => self.rsa(&RSA_PSS_2048_8192_SHA384, message, signature),
            Algorithm::PS512 => self.rsa(&RSA_PSS_2048_8192_SHA512, message, signature),
            Algorithm::ES256 => self.point(&ECDSA_P256_SHA256_FIXED, message, signature),
            Algorithm::ES384 => self.point(&ECDSA_P384_SHA384_FIXED, message, signature),
            Algorithm::EdDSA => self.point(&ED25519, message, signature),
            // A shared secret cannot verify who signed a token.
            _ => None,
        };
        verified.ok_or_else(Error::new)
    }
}

impl RingVerifier {
    fn rsa(
        &self,
        parameters: &'static RsaParameters,
        message: &[u8],
        signature: &[u8],
    ) -> Option<()> {
        match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => RsaPublicKeyComponents { n, e }
                .verify(parameters, message, signature)
                .ok(),
            DecodingKeyKind::SecretOrDer(_) => None,
        }
    }

    fn point(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<()> {
        let key = self.key.try_get_as_bytes().ok()?;
        UnparsedPublicKey::new(algorithm, key)
            .verify(message, signature)
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, crypto, jwk::Jwk};
    use serde_json::json;

    use super::*;

    fn verify(algorithm: Algorithm, jwk: serde_json::Value, token: &str) -> bool {
        install();
        let jwk: Jwk = serde_json::from_value(jwk).unwrap();
        let key = DecodingKey::from_jwk(&jwk).unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        crypto::verify(signature, message.as_bytes(), &key, algorithm).unwrap_or(false)
    }

    /// The examples of RFC 7515, appendices A.2 and A.3, and of RFC 8037, appendix A.4.
    fn examples() -> Vec<(Algorithm, serde_json::Value, &'static str)> {
        let payload_of_rfc_7515 = concat!(
            "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt",
            "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XO",
            "iZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_",
            "nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwus",
            "C-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmt",
            "VrBp0igcN_IoypGlUPQGe77Rw"
        );
        let modulus = concat!(
            "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0",
            "Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXnd",
            "S5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJ",
            "H7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
        );
        vec![
            (
                Algorithm::RS256,
                json!({"kty": "RSA", "n": modulus, "e": "AQAB"}),
                payload_of_rfc_7515,
            ),
            (
                Algorithm::ES256,
                json!({
                    "kty": "EC", "crv": "P-256",
                    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
                }),
                "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
            ),
            (
                Algorithm::EdDSA,
                json!({
                    "kty": "OKP", "crv": "Ed25519",
                    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                }),
                "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
            ),
        ]
    }

    #[test]
    fn the_examples_of_the_standards_are_verified_and_changed_ones_are_not() {
        for (algorithm, jwk, token) in examples() {
            assert!(verify(algorithm, jwk.clone(), token), "{algorithm:?}");
            let changed = token.replacen("eyJ", "fyJ", 1);
            assert!(!verify(algorithm, jwk, &changed), "{algorithm:?}");
        }
    }

    #[test]
    fn a_key_of_another_family_verifies_nothing() {
        let examples = examples();
        for (algorithm, _, token) in &examples {
            for (other, jwk, _) in &examples {
                let is_own = algorithm == other;
                assert_eq!(verify(*algorithm, jwk.clone(), token), is_own);
            }
        }
    }
}
