"""nearcast: geo-aware publish-process-subscribe on edge servers."""
