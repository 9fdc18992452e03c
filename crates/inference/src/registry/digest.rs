//! Sha256 as lower-case hex.

use std::{fs::File, io, path::Path};

use sha2::{Digest, Sha256};

/// Returns the sha256 of some bytes.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the sha256 of a file, read in blocks.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match io::Read::read(&mut file, &mut block)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&block[..read]),
        }
    }
}

/// Returns bytes as lower-case hex, two digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
