//! Suggestions for names that nobody knows.

/// Longer names get no suggestion. The comparison takes the product of two lengths.
const MAX_BYTES: usize = 64;

/// The shortest name that is looked for inside longer ones.
const MIN_INSIDE: usize = 4;

/// Returns the known name that was probably meant: one that differs in at most a quarter of its letters, or else the only one
/// that contains the name.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() < 3 || name.len() > MAX_BYTES {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let name = name.to_ascii_lowercase().replace('-', "_");
    let distance = |known: &str| {
        let known = known.to_ascii_lowercase().replace('-', "_");
        strsim::damerau_levenshtein(&name, &known)
    };
    let closest = known.iter().copied().min_by_key(|known| distance(known))?;
    if distance(closest) * 4 <= name.len().max(4) {
        return Some(closest);
    }
    let mut containing = known
        .into_iter()
        .filter(|known| name.len() >= MIN_INSIDE && known.contains(&name));
    match (containing.next(), containing.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_by_its_letters_or_as_a_part() {
        let known = ["max_faces", "url", "gaussian_blur", "crop", "fit"];
        for (name, expected) in [
            ("max_face", Some("max_faces")),
            ("maxFaces", Some("max_faces")),
            ("MAX-FACES", Some("max_faces")),
            ("ulr", Some("url")),
            ("blur", Some("gaussian_blur")),
            ("fat", Some("fit")),
            ("model", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest(&"max_faces".repeat(100), known), None);
    }
}
