//! One message to where it goes, with what was ordered of it.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

use super::rule::{Close, Fault, Order, Side};

/// How it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    On,
    /// Nothing more goes this way.
    Mute,
    /// Both connections end.
    End(Close),
}

/// Has the connection end with a reset once its other half is dropped too.
pub(super) fn reset(to: OwnedWriteHalf) {
    let _ = to.as_ref().set_zero_linger();
    // Dropped as others are, it would say first that all is said.
    to.forget();
}

/// A message under way.
pub(super) struct Passing<'a> {
    side: Side,
    order: Option<&'a Order>,
    passed: usize,
    fired: bool,
}

impl<'a> Passing<'a> {
    pub(super) fn new(side: Side, order: Option<&'a Order>) -> Passing<'a> {
        Passing { side, order, passed: 0, fired: false }
    }

    /// Passes the next bytes of it on; `last` if the message ends with them.
    pub(super) async fn pass(
        &mut self,
        bytes: &[u8],
        last: bool,
        to: &mut OwnedWriteHalf,
    ) -> io::Result<Flow> {
        let place = self.order.filter(|_| !self.fired).and_then(|order| order.rule.fault.place(self.side));
        let Some((order, place)) = self.order.zip(place) else {
            self.write(bytes, to).await?;
            self.note(last);
            return Ok(Flow::On);
        };
        let here = match place.checked_sub(self.passed) {
            Some(here) if here <= bytes.len() => here,
            // Behind the end of the message is at its end.
            _ if last => bytes.len(),
            _ => {
                self.write(bytes, to).await?;
                self.note(last);
                return Ok(Flow::On);
            }
        };
        let (first, rest) = bytes.split_at(here);
        self.write(first, to).await?;
        self.note(last && rest.is_empty());
        self.fired = true;
        order.fires();
        match order.rule.fault {
            Fault::Cut { how, .. } => return Ok(Flow::End(how)),
            Fault::HalfClose { .. } => {
                to.shutdown().await?;
                return Ok(Flow::Mute);
            }
            Fault::Stall { .. } => order.released().await,
            Fault::Delay { ms, .. } => tokio::time::sleep(Duration::from_millis(ms)).await,
            Fault::Watch | Fault::Duplicate => {}
        }
        self.write(rest, to).await?;
        self.note(last);
        Ok(Flow::On)
    }

    async fn write(&mut self, bytes: &[u8], to: &mut OwnedWriteHalf) -> io::Result<()> {
        to.write_all(bytes).await?;
        self.passed += bytes.len();
        Ok(())
    }

    fn note(&self, last: bool) {
        let Some(order) = self.order else { return };
        order.progress.send_modify(|progress| match self.side {
            Side::Request => progress.request = self.passed,
            Side::Answer => {
                progress.answer = self.passed;
                progress.answered = progress.answered || last;
            }
        });
    }
}
