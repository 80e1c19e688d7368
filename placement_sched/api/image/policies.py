"""Who may do what with the image API: rule names and defaults are glance's.

These say who may ask at all. Whose image it is, is asked beyond that: its owner and an
administrator may change it, and who may see it follows from its visibility. Who is an
administrator tells ``context_is_admin``, a rule of nova's as well.
"""

from placement_sched.api.policies import Rule

_ADMIN = "role:admin"
#: Who holds ``member`` holds ``reader`` as well, where keystone tells the roles; ``noauth2`` has
#: them from the caller.
_READER = "role:admin or role:reader or (role:member and project_id:%(project_id)s)"
_MEMBER = "role:admin or (role:member and project_id:%(project_id)s)"

RULES = (
    Rule("get_images", _READER, "List images."),
    Rule("get_image", _READER, "Show an image."),
    Rule("add_image", _MEMBER, "Create an image."),
    Rule("modify_image", _MEMBER, "Change or tag an image of the caller's project."),
    Rule("publicize_image", _ADMIN, "Give an image to all projects, and into their lists."),
    Rule("communitize_image", _MEMBER, "Let all projects use an image of the caller's project."),
    Rule("delete_image", _MEMBER, "Delete an image of the caller's project."),
    Rule("upload_image", _MEMBER, "Upload image data."),
    Rule("download_image", _READER, "Download image data."),
    Rule("deactivate", _ADMIN, "Withhold an image's data."),
    Rule("reactivate", _ADMIN, "Give an image's data out again."),
    Rule("get_members", _READER, "List the projects with whom an image is shared."),
    Rule("get_member", _READER, "Show a project with whom an image is shared."),
    Rule("add_member", _MEMBER, "Share an image with a project."),
    Rule("modify_member", _MEMBER, "Accept or reject an image that is shared."),
    Rule("delete_member", _MEMBER, "Share an image with a project no more."),
)
