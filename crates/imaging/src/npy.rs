//! Tensors as NumPy's `.npy` files, version 1.0
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

/// The file begins at a multiple of this, so that the values are aligned where it is mapped into memory.
const ALIGNMENT: usize = 64;

/// The type of a tensor's values, all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    U8,
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE 754).
    F16,
    /// Brain floats. NumPy has no name for them: they are two bytes of no type, which `ml_dtypes.bfloat16` reads.
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

/// The head of a file of a tensor in row-major order; its values' bytes follow.
pub fn head(kind: Kind, shape: &[usize]) -> Vec<u8> {
    let text = described(kind, shape);
    let len = (BEFORE + text.len() + 1).next_multiple_of(ALIGNMENT);
    filled(&text, len)
}

/// The same of a length that is known before the shape is; `None` when it does not fit.
pub fn head_of(kind: Kind, shape: &[usize], len: usize) -> Option<Vec<u8>> {
    let text = described(kind, shape);
    (BEFORE + text.len() < len).then(|| filled(&text, len))
}

/// What comes before the description: the magic, the version and a length.
const BEFORE: usize = 10;

fn described(kind: Kind, shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    // A tuple of one has a comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        kind.description(),
        dims.join(", ")
    )
}

/// A head of `len` bytes: spaces after the description, and a line's end.
fn filled(text: &str, len: usize) -> Vec<u8> {
    let told = u16::try_from(len - BEFORE).unwrap_or(u16::MAX);
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend(told.to_le_bytes());
    head.extend(text.as_bytes());
    head.resize(len - 1, b' ');
    head.push(b'\n');
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_what_numpy_writes() {
        let head = head(Kind::F32, &[32, 3, 224, 224]);
        assert_eq!(head.len() % ALIGNMENT, 0);
        let written = "{'descr': '<f4', 'fortran_order': False, 'shape': (32, 3, 224, 224), }";
        assert_eq!(&head[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(String::from_utf8_lossy(&head[10..]).trim_end(), written);
        assert_eq!(head.last(), Some(&b'\n'));
        let long = head_of(Kind::Bf16, &[2, 3], 512).unwrap();
        assert_eq!((long.len(), &long[8..10]), (512, &[0xF6, 0x01][..]));
        assert_eq!(head_of(Kind::Bf16, &[2, 3], 64), None);
        for (shape, told) in [(&[7][..], "(7,)"), (&[], "()"), (&[2, 5], "(2, 5)")] {
            let head = super::head(Kind::U8, shape);
            let text = String::from_utf8_lossy(&head[10..]).into_owned();
            assert!(text.contains(&format!("'shape': {told}, ")), "{text}");
        }
    }
}
