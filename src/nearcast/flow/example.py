"""The shipped flow: cameras look for people, who are described, recognised and counted."""

__all__ = ["PEOPLE"]

PEOPLE = """\
# Cameras publish frames; alerts and counts are topics that clients subscribe to.
name = "people"
sources = ["camera/frames"]

[components.detect]
processor = "person-region"
inputs = ["camera/frames"]
output = "people/regions"

[components.describe]
processor = "person-features"
inputs = ["people/regions"]
output = "people/features"

[components.recognise]
processor = "person-match"
inputs = ["people/features"]
output = "people/alerts"
mapping = { field = "camera" }      # a gallery of known people for each camera

[components.count]
processor = "person-count"
inputs = ["people/regions"]
output = "people/counts"
mapping = { field = "camera" }
"""
