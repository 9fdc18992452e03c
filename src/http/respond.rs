//! Writes responses in the format that the caller accepts.

pub mod negotiated;
pub mod page;
mod reserved_body;

use std::cmp::Reverse;

use axum::http::{HeaderMap, HeaderValue, header::ACCEPT};
use facescan_config::EnhancedFormat;

use super::error::ApiError;

/// The format that the caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// JSON. It is also the default.
    Json,
    /// msgpack with named fields.
    Msgpack,
    /// The image itself, in this format if the caller names one.
    Image(Option<EnhancedFormat>),
    /// The tensor itself, as a NumPy file.
    Npy,
    /// One part for each tensor, as `multipart/mixed`.
    Parts,
}

const STRUCTURED: [(&str, Accepted); 4] = [
    ("application/json", Accepted::Json),
    ("application/msgpack", Accepted::Msgpack),
    ("application/x-msgpack", Accepted::Msgpack),
    ("application/vnd.msgpack", Accepted::Msgpack),
];

const IMAGES: [(&str, Accepted); 4] = [
    ("image/jpeg", Accepted::Image(Some(EnhancedFormat::Jpeg))),
    ("image/png", Accepted::Image(Some(EnhancedFormat::Png))),
    ("image/webp", Accepted::Image(Some(EnhancedFormat::Webp))),
    ("image/avif", Accepted::Image(Some(EnhancedFormat::Avif))),
];

const NPY: (&str, Accepted) = ("application/x-npy", Accepted::Npy);
const PARTS: (&str, Accepted) = ("multipart/mixed", Accepted::Parts);

impl Accepted {
    /// Reads the `Accept` header (RFC 9110, 12.5.1) of a request for structured data. The default is JSON.
    pub fn structured(headers: &HeaderMap) -> Self {
        Self::from_headers(headers, &STRUCTURED)
    }

    /// Reads the header of a request whose response can also be an image.
    pub fn image_or_structured(headers: &HeaderMap) -> Self {
        Self::from_headers(headers, &[&STRUCTURED[..], &IMAGES].concat())
    }

    /// Reads the header of a request whose response can also be an image or a tensor.
    pub fn any(headers: &HeaderMap) -> Self {
        Self::from_headers(headers, &[&STRUCTURED[..], &IMAGES, &[NPY]].concat())
    }

    /// Reads the header of a request whose response is tensors. The default is one NumPy file.
    pub fn tensors(headers: &HeaderMap) -> Self {
        Self::from_headers(headers, &[&[NPY], &STRUCTURED[..], &[PARTS]].concat())
    }

    /// Returns the offered type with the highest weight. If several have the same weight, the most specific range wins,
    /// then the first range in the header, then the first offered type.
    fn from_headers(headers: &HeaderMap, offered: &[(&'static str, Self)]) -> Self {
        let ranges: Vec<Range> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(Range::read)
            .collect();
        let mut best = None;
        for (media_type, accepted) in offered {
            // The most specific range decides the weight of a type.
            let matching = ranges.iter().enumerate().filter_map(|(position, range)| {
                let specificity = range.specificity(media_type)?;
                Some((specificity, Reverse(position), range.weight))
            });
            let Some((specificity, position, weight)) = matching.max() else {
                continue;
            };
            let rank = (weight, specificity, position);
            if weight > 0 && best.is_none_or(|(highest, _)| rank > highest) {
                best = Some((rank, *accepted));
            }
        }
        match best {
            // A wildcard names no format, so the endpoint chooses it, unless the header also names one.
            Some(((_, Specificity::Subtype, _), Self::Image(_)))
                if !ranges.iter().any(Range::names_one_image_type) =>
            {
                Self::Image(None)
            }
            Some((_, accepted)) => accepted,
            None => offered[0].1,
        }
    }
}

/// How specific a range is, from the least to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    /// `*/*`.
    Any,
    /// Every subtype, such as `image/*`.
    Subtype,
    /// One type, such as `image/png`.
    Exact,
}

/// A media range of an `Accept` header.
struct Range {
    name: String,
    /// The weight in thousandths.
    weight: u16,
}

impl Range {
    /// Parses one range. Returns `None` if it is malformed. The other ranges still count.
    fn read(text: &str) -> Option<Self> {
        let range: mime::Mime = text.trim().parse().ok()?;
        let weight = match range.get_param("q") {
            Some(weight) => weight.as_str().parse().unwrap_or(0.0),
            None => 1.0f32,
        };
        Some(Self {
            name: range.essence_str().to_owned(),
            weight: (weight.clamp(0.0, 1.0) * 1000.0).round() as u16,
        })
    }

    fn names_one_image_type(&self) -> bool {
        self.name.starts_with("image/") && self.name != "image/*"
    }

    /// Returns how specifically the range names a type, or `None` if the type is not in the range.
    fn specificity(&self, media_type: &str) -> Option<Specificity> {
        let prefix = self.name.strip_suffix('*');
        match self.name.as_str() {
            "*/*" => Some(Specificity::Any),
            name if name == media_type => Some(Specificity::Exact),
            _ if prefix.is_some_and(|prefix| media_type.starts_with(prefix)) => {
                Some(Specificity::Subtype)
            }
            _ => None,
        }
    }
}

/// Converts a text to the value of a header.
///
/// # Errors
/// [`ApiError::Internal`] if the text has a character that a header cannot have.
pub fn header_value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(|error| ApiError::Internal(error.to_string()))
}

/// Formats milliseconds for a header, with microseconds.
///
/// # Errors
/// The error of [`header_value`].
pub fn milliseconds(milliseconds: f64) -> Result<HeaderValue, ApiError> {
    header_value(&format!("{milliseconds:.3}"))
}

/// Runs work that prepares a response on a thread that work on images cannot take.
///
/// # Errors
/// [`ApiError::Internal`] if the work panics.
pub async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    // One type of task for all work with the same result compiles faster than one for each.
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::Internal("a response could not be written".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&'static str]) -> HeaderMap {
        let lines = lines.iter().copied().map(HeaderValue::from_static);
        lines.map(|line| (ACCEPT, line)).collect()
    }

    #[test]
    fn the_offered_type_with_the_highest_weight_wins() {
        assert_eq!(Accepted::structured(&HeaderMap::new()), Accepted::Json);
        for (header, expected) in [
            ("*/*", Accepted::Json),
            ("application/msgpack", Accepted::Msgpack),
            (
                "text/html, application/x-msgpack;q=0.9, */*;q=0.1",
                Accepted::Msgpack,
            ),
            ("application/msgpack;q=0, application/json", Accepted::Json),
            ("image/*;q=0.5, application/json;q=0.9", Accepted::Json),
            ("image/*", Accepted::Image(None)),
            (
                "image/*, image/jpeg;q=0",
                Accepted::Image(Some(EnhancedFormat::Png)),
            ),
            ("image/png", Accepted::Image(Some(EnhancedFormat::Png))),
            ("image/avif", Accepted::Image(Some(EnhancedFormat::Avif))),
            ("text/plain", Accepted::Json),
            // A malformed range, and a malformed weight.
            ("image, */, application/msgpack", Accepted::Msgpack),
            ("application/msgpack;q=high, image/*", Accepted::Image(None)),
            ("image/*, application/json", Accepted::Json),
            (
                "IMAGE/WEBP;q=0.4, image/*;q=0.3",
                Accepted::Image(Some(EnhancedFormat::Webp)),
            ),
        ] {
            let accepted = Accepted::image_or_structured(&headers(&[header]));
            assert_eq!(accepted, expected, "{header}");
        }
    }

    #[test]
    fn an_image_type_is_ignored_if_it_is_not_offered() {
        let headers = headers(&["image/*, application/msgpack;q=0.5"]);
        assert_eq!(Accepted::structured(&headers), Accepted::Msgpack);
    }

    #[test]
    fn tensor_types_are_chosen_by_weight_specificity_and_order() {
        for (header, expected) in [
            ("", Accepted::Npy),
            ("*/*", Accepted::Npy),
            ("application/*", Accepted::Npy),
            ("application/json", Accepted::Json),
            ("application/msgpack", Accepted::Msgpack),
            ("multipart/mixed", Accepted::Parts),
            ("multipart/*", Accepted::Parts),
            ("text/html", Accepted::Npy),
            // By weight.
            (
                "multipart/mixed;q=0.2, application/json;q=0.8",
                Accepted::Json,
            ),
            ("application/json;q=0.8, application/x-npy", Accepted::Npy),
            ("application/json;q=0.1, */*;q=0.01", Accepted::Json),
            // By specificity.
            ("*/*, multipart/mixed", Accepted::Parts),
            ("application/*, application/msgpack", Accepted::Msgpack),
            ("*/*, multipart/*", Accepted::Parts),
            // By order.
            ("application/msgpack, application/json", Accepted::Msgpack),
            ("application/json, application/msgpack", Accepted::Json),
            // The most specific range decides a type's weight, and one of 0 refuses it.
            ("*/*, application/x-npy;q=0", Accepted::Json),
            ("application/*;q=0, */*;q=0.1", Accepted::Parts),
            ("application/x-npy;q=0.1, */*;q=0.5", Accepted::Json),
        ] {
            let headers = headers(&[header]);
            assert_eq!(Accepted::tensors(&headers), expected, "{header}");
        }
        let two_lines = headers(&["application/json;q=0.5", "multipart/mixed;q=0.7"]);
        assert_eq!(Accepted::tensors(&two_lines), Accepted::Parts);
    }
}
