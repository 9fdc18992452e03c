use super::*;

fn divided(form: &str, most: usize) -> Result<Vec<(String, Option<String>, String)>, String> {
    let parts = divide(&Bytes::copy_from_slice(form.as_bytes()), "edge", most);
    let text = |part: &Part| String::from_utf8(part.content.to_vec()).unwrap();
    let described = |part: &Part| (part.name.clone(), part.file_name.clone(), text(part));
    match parts {
        Ok(parts) => Ok(parts.iter().map(described).collect()),
        Err(error) => Err(error.to_string()),
    }
}

fn part(name: &str, content: &str) -> String {
    format!("--edge\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
}

fn read(name: &str, content: &str) -> (String, Option<String>, String) {
    (name.to_owned(), None, content.to_owned())
}

#[test]
fn a_form_is_its_parts_in_order() {
    let form = [
        &part("a", "one"),
        &part("b", "x--edge\r\n--edg"),
        &part("a", ""),
        "--edge--\r\n",
    ];
    let expected = vec![
        read("a", "one"),
        read("b", "x--edge\r\n--edg"),
        read("a", ""),
    ];
    assert_eq!(divided(&form.concat(), 3), Ok(expected));
}

#[test]
fn what_is_before_and_after_the_form_is_ignored() {
    let form = format!("before\r\n{}--edge-- \r\nafter --edge", part("a", "one"));
    assert_eq!(divided(&form, 1), Ok(vec![read("a", "one")]));
    assert_eq!(divided("--edge--", 0), Ok(Vec::new()));
}

#[test]
fn padding_behind_a_boundary_and_other_headers_are_ignored() {
    let form = "--edge \t\r\nX: y\r\nContent-Disposition: form-data; name=i; filename=f\r\n\r\nx\r\n--edge--";
    let expected = ("i".to_owned(), Some("f".to_owned()), "x".to_owned());
    assert_eq!(divided(form, 1), Ok(vec![expected]));
}

#[test]
fn an_empty_part_may_share_its_line_break_with_its_head() {
    let form = "--edge\r\ncontent-disposition: form-data; name=i\r\n\r\n--edge--";
    assert_eq!(divided(form, 1), Ok(vec![read("i", "")]));
    assert_eq!(divided("--edge\r\n\r\n--edge--", 1), Ok(vec![read("", "")]));
}

#[test]
fn a_form_with_too_many_parts_is_not_divided_further() {
    let form = [
        part("a", "one"),
        part("a", "two"),
        "--edge\r\nno head".to_owned(),
    ]
    .concat();
    assert_eq!(divided(&form, 1).unwrap().len(), 2);
    assert!(check_count(2, 2).is_ok() && check_count(3, 2).is_err());
}

#[test]
fn a_form_that_breaks_off_says_what_is_missing() {
    for (form, missing) in [
        ("", "its first boundary"),
        ("x--edge\r\n", "its first boundary"),
        ("--edge", "the line of a boundary"),
        ("--edge\r", "the line of a boundary"),
        ("--edgex\r\n", "the line of a boundary"),
        ("--edge\r\na: b", "the head of a part"),
        ("--edge\r\na: b\r\n\r\nx\r\n--edg", "its last boundary"),
        (
            "--edge\r\na: b\r\n\r\nx\r\n--edge",
            "the line of a boundary",
        ),
    ] {
        let error = divided(form, 9).unwrap_err();
        assert!(
            error.contains(&format!("ends before {missing}")),
            "{form:?}: {error}"
        );
    }
}

#[test]
fn the_head_of_a_part_is_limited() {
    let long = format!(
        "--edge\r\na: {}\r\n\r\n\r\n--edge--",
        "x".repeat(MAX_HEAD_BYTES)
    );
    assert!(
        divided(&long, 1)
            .unwrap_err()
            .contains("longer than 8192 bytes")
    );
    let many = format!(
        "--edge\r\n{}\r\n\r\n--edge--",
        "a: b\r\n".repeat(MAX_HEADERS + 1)
    );
    assert!(divided(&many, 1).unwrap_err().contains("cannot be read"));
}

#[test]
fn an_option_is_short_text_without_nul() {
    let option = |name: &str, content: Vec<u8>| Part {
        name: name.to_owned(),
        file_name: None,
        content: content.into(),
    };
    assert_eq!(option("min_score", b"0.5".to_vec()).text().unwrap(), "0.5");
    let long = vec![b'x'; MAX_TEXT_BYTES + 1];
    assert!(option("options", long.clone()).text().is_ok());
    for content in [long, b"a\0b".to_vec(), b"\xff".to_vec()] {
        let error = option("min_score", content).text().unwrap_err();
        assert_eq!(error.kind().status, 422, "{error}");
    }
}
