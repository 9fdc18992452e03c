//! Headers of NumPy's `.npy` files, version 1.0
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

/// The header's length is a multiple of this, so that the values are aligned when the file is mapped into memory.
const ALIGNMENT: usize = 64;

/// The type of a tensor's values. All are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    U8,
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE 754).
    F16,
    /// bfloat16. NumPy has no name for it, so the type is two untyped bytes, which `ml_dtypes.bfloat16` reads.
    Bf16,
}

impl Kind {
    fn description(self) -> &'static str {
        match self {
            Self::U8 => "|u1",
            Self::F32 => "<f4",
            Self::F16 => "<f2",
            Self::Bf16 => "|V2",
        }
    }
}

/// Returns the header of a file with a tensor in row-major order. The bytes of the values follow it.
pub fn header(kind: Kind, shape: &[usize]) -> Vec<u8> {
    let text = description(kind, shape);
    let len = (PREFIX + text.len() + 1).next_multiple_of(ALIGNMENT);
    padded(&text, len)
}

/// Returns [`header`] with a fixed length of `len` bytes, for a shape that is known only after the values are written.
/// Returns `None` if the header does not fit.
pub fn header_of_len(kind: Kind, shape: &[usize], len: usize) -> Option<Vec<u8>> {
    let text = description(kind, shape);
    (PREFIX + text.len() < len).then(|| padded(&text, len))
}

/// Bytes before the description: the magic string, the version and the length.
const PREFIX: usize = 10;

fn description(kind: Kind, shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    // A Python tuple of one element needs a comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        kind.description(),
        dims.join(", ")
    )
}

/// Returns a header of `len` bytes: the description, padded with spaces, and a line feed.
fn padded(text: &str, len: usize) -> Vec<u8> {
    let length = u16::try_from(len - PREFIX).unwrap_or(u16::MAX);
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend(length.to_le_bytes());
    head.extend(text.as_bytes());
    head.resize(len - 1, b' ');
    head.push(b'\n');
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_equal_those_of_numpy() {
        let head = header(Kind::F32, &[32, 3, 224, 224]);
        assert_eq!(head.len() % ALIGNMENT, 0);
        let written = "{'descr': '<f4', 'fortran_order': False, 'shape': (32, 3, 224, 224), }";
        assert_eq!(&head[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(String::from_utf8_lossy(&head[10..]).trim_end(), written);
        assert_eq!(head.last(), Some(&b'\n'));
        let long = header_of_len(Kind::Bf16, &[2, 3], 512).unwrap();
        assert_eq!((long.len(), &long[8..10]), (512, &[0xF6, 0x01][..]));
        assert_eq!(header_of_len(Kind::Bf16, &[2, 3], 64), None);
        for (shape, text_of_shape) in [(&[7][..], "(7,)"), (&[], "()"), (&[2, 5], "(2, 5)")] {
            let head = super::header(Kind::U8, shape);
            let text = String::from_utf8_lossy(&head[10..]).into_owned();
            assert!(
                text.contains(&format!("'shape': {text_of_shape}, ")),
                "{text}"
            );
        }
    }
}
