//! Enums whose values have names.

/// An enum whose values have names.
pub(crate) trait Named: Sized {
    /// Returns the value with this name.
    fn from_name(name: &str) -> Option<Self>;
}

/// Declares an enum with the names that its values have in the database, in responses and in messages.
///
/// Some of these enums are also fields of requests and responses. There serde makes the names from the variants, so a variant and its
/// name must agree. Databases and clients keep both, so neither changes after a release.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident { $($(#[$value_meta:meta])* $value:ident = $name:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $($(#[$value_meta])* $value,)+
        }

        impl $enum {
            /// Returns the name in the database, in responses and in messages.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl $crate::named::Named for $enum {
            fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$value),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use named;
