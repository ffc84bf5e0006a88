"""Points on a plane in kilometres. Read ``distance`` first."""
